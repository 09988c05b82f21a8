from __future__ import annotations

import pytest

from penstock.cli.access.client_properties import translate_client_properties
from penstock.cli.errors import UsageError


def test_java_client_file_becomes_librdkafka_settings_when_translated() -> None:
    translated = translate_client_properties(
        {
            "bootstrap.servers": "a:1,b:2",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="alice" password="s3\\"cret";'
            ),
            "ssl.truststore.location": "/etc/ca.pem",
            "ssl.truststore.password": "unused",
            "ssl.endpoint.identification.algorithm": "",
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "fetch.max.wait.ms": "100",
        }
    )
    assert translated == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 's3"cret',
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "fetch.wait.max.ms": "100",
    }


def test_unknown_key_passes_through_when_translated() -> None:
    assert translate_client_properties({"debug": "broker"}) == {"debug": "broker"}


def test_pem_key_store_gives_key_and_certificate_when_translated() -> None:
    translated = translate_client_properties({"ssl.keystore.location": "me.pem", "ssl.keystore.type": "PEM"})
    assert translated == {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem"}


def test_blanks_behind_values_mean_nothing_when_translated() -> None:
    """Java keeps them, and Kafka takes them off every text."""
    blanks = {"ssl.truststore.location": "ca.store ", "ssl.truststore.type": "PEM  ", "sasl.mechanism": "PLAIN\t"}
    assert translate_client_properties(blanks) == {"ssl.ca.location": "ca.store", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    "properties",
    [
        {"ssl.truststore.location": "trust.jks"},
        {"ssl.truststore.location": "trust.p12"},
        {"ssl.keystore.location": "key.store"},
        {"ssl.keystore.location": "key.pem", "ssl.keystore.type": "JKS"},
    ],
)
def test_usage_error_tells_how_to_convert_when_store_is_for_java_only(properties: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="only Java") as caught:
        translate_client_properties(properties)
    assert "openssl" in caught.value.hint


def test_usage_error_when_jaas_names_no_credentials() -> None:
    with pytest.raises(UsageError):
        translate_client_properties(
            {"sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required debug=true;"}
        )


def test_settings_of_librdkafka_are_found_when_the_module_is_oauthbearers_or_kerberos() -> None:
    oauthbearer = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="app" clientSecret="geheim" scope="kafka";'
    )
    assert translate_client_properties({"sasl.jaas.config": oauthbearer}) == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "geheim",
        "sasl.oauthbearer.scope": "kafka",
    }
    kerberos = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="a@R";'
    assert translate_client_properties({"sasl.jaas.config": kerberos}) == {
        "sasl.kerberos.keytab": "/k",
        "sasl.kerberos.principal": "a@R",
    }
