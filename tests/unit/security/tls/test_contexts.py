"""Settings to contexts: what is accepted, and what the operator is told where it is not."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.security.certificates.authority import Wanted
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.certificates.key_files import split_pem, to_java_truststore, to_pkcs12
from penstock.security.tls.ciphers import TLS_1_2, TLS_1_3
from penstock.security.tls.contexts import check_own_trust, load_client, load_server, shake_hands
from penstock.security.tls.replacement import check_replacement
from penstock.security.tls.settings import TlsSettings
from tests.certificates import broker_settings, client_settings, new_directory

PASSWORD = "changeit-77"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> CertificateDirectory:
    return new_directory(tmp_path_factory.mktemp("certificates"), alice=None)


def settings_of(properties: dict[str, str]) -> TlsSettings:
    config = BrokerConfig.parse(properties)
    return TlsSettings.of(lambda name: config.listener_value("SSL", name))


def client_context(directory: CertificateDirectory, name: str | None = None, **more: str) -> ssl.SSLContext:
    """Without the check of the host, which has no name in memory."""
    properties = {**client_settings(directory, name), "ssl.endpoint.identification.algorithm": "", **more}
    return load_client(TlsSettings.of_properties(properties))


def test_sides_shake_hands_when_the_key_store_is_pem(directory: CertificateDirectory) -> None:
    server = load_server(settings_of(broker_settings(directory)))
    shake_hands(server.context, client_context(directory))


def test_sides_shake_hands_when_everything_is_in_the_settings(directory: CertificateDirectory) -> None:
    key, chain = (part.decode() for part in split_pem(directory.file("broker").read_bytes()))
    server = load_server(settings_of({"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}))
    trusted = {
        "ssl.truststore.certificates": directory.trusted.read_text(),
        "ssl.endpoint.identification.algorithm": "",
    }
    shake_hands(server.context, load_client(TlsSettings.of_properties(trusted)))


def test_sides_shake_hands_when_the_stores_are_pkcs12(directory: CertificateDirectory, tmp_path: Path) -> None:
    """Under the type JKS, which is Kafka's default and Java's habit."""
    authorities = directory.trusted.read_bytes()
    keystore, truststore = tmp_path / "broker.jks", tmp_path / "trust.jks"
    keystore.write_bytes(to_pkcs12("broker", directory.file("broker").read_bytes(), authorities, PASSWORD))
    truststore.write_bytes(to_java_truststore(authorities, PASSWORD))
    stores = {
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(truststore),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    server = load_server(settings_of(stores))
    shake_hands(server.context, client_context(directory, "alice"))
    check_own_trust(settings_of(stores), server)


def test_key_is_used_when_it_is_encrypted_and_the_password_is_given(
    directory: CertificateDirectory, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
    from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key

    both = directory.file("broker").read_bytes()
    encryption = BestAvailableEncryption(PASSWORD.encode())
    key = load_key(both, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    (tmp_path / "broker.pem").write_bytes(key + split_pem(both).certificate)
    stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "broker.pem")}
    load_server(settings_of({**stores, "ssl.key.password": PASSWORD}))
    for wrong in ({}, {"ssl.key.password": "other-99"}):
        with pytest.raises(ConfigError, match=r"ssl\.key\.password is wrong or missing") as caught:
            load_server(settings_of({**stores, **wrong}))
        assert "other-99" not in str(caught.value)


@pytest.mark.parametrize(
    ("contents", "more", "words"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", {}, "keytool -importkeystore -srckeystore"),
        (b"\0rubbish", {}, "neither PEM nor PKCS12"),
        (b"\x30\x03\x02\x01\x01", {"ssl.keystore.password": "secret-55"}, "ssl.keystore.password is wrong or missing"),
        (b"\x30\x03\x02\x01\x01", {"ssl.keystore.type": "PEM"}, "set ssl.keystore.type=PKCS12"),
        (b"-----BEGIN CERTIFICATE-----\n", {"ssl.keystore.type": "PKCS12"}, "set ssl.keystore.type=PEM"),
        (b"-----BEGIN CERTIFICATE-----\n", {}, "expected one private key"),
    ],
)
def test_key_store_is_refused_with_what_to_do_when_it_cannot_be_used(
    tmp_path: Path, contents: bytes, more: dict[str, str], words: str
) -> None:
    path = tmp_path / "broker.jks"
    path.write_bytes(contents)
    with pytest.raises(ConfigError) as caught:
        load_server(settings_of({"ssl.keystore.location": str(path), **more}))
    assert words in str(caught.value)
    assert "ssl.keystore.location" in str(caught.value)
    assert "secret-55" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "penstock certificates init-ca"),
        ({"ssl.keystore.location": "/nowhere/b.pem"}, "No such file"),
        ({"ssl.keystore.key": "secret-55"}, "ssl.keystore.certificate.chain is missing"),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "neither DEFAULT nor RULE"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_RC4_128_MD5"}, "too weak"),
        ({"ssl.cipher.suites": TLS_1_3[0]}, "Name all of"),
        ({"ssl.cipher.suites": ",".join(TLS_1_3), "ssl.enabled.protocols": "TLSv1.2"}, "No suite"),
        ({"ssl.client.auth": "required", "ssl.truststore.location": ""}, "whose certificates to trust"),
        ({"penstock.ssl.crl.location": "/nowhere/crl.pem", "ssl.client.auth": "required"}, "No such file"),
    ],
)
def test_settings_are_refused_with_the_key_when_they_make_no_sense(
    directory: CertificateDirectory, settings: dict[str, str], words: str
) -> None:
    given = {} if not settings or "ssl.keystore.key" in settings else broker_settings(directory)
    with pytest.raises(ConfigError) as caught:
        load_server(settings_of({**given, **settings}))
    assert words in str(caught.value)
    assert "secret-55" not in str(caught.value)


def test_version_is_refused_when_it_is_older_than_tls_1_2() -> None:
    with pytest.raises(ConfigError, match=r"TLSv1\.1"):
        BrokerConfig.parse({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"})


def test_only_the_named_suite_is_spoken_when_suites_are_named(directory: CertificateDirectory) -> None:
    name = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    server = load_server(settings_of({**broker_settings(directory), "ssl.cipher.suites": name}))
    assert server.context.maximum_version == ssl.TLSVersion.TLSv1_2
    client = client_context(directory)
    client.set_ciphers(TLS_1_2["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"])
    with pytest.raises(ssl.SSLError):
        shake_hands(server.context, client)
    client.set_ciphers(TLS_1_2[name])
    shake_hands(server.context, client)


def test_client_is_refused_when_its_certificate_is_of_a_stranger(
    directory: CertificateDirectory, tmp_path: Path
) -> None:
    stranger = new_directory(tmp_path / "other", mallory=None)
    server = load_server(settings_of(broker_settings(directory, client_auth="required")))
    shake_hands(server.context, client_context(directory, "alice"))
    for properties in (client_settings(stranger, "mallory"), {}):
        client = load_client(
            TlsSettings.of_properties(
                {**client_settings(directory), **properties, "ssl.truststore.location": str(directory.trusted)}
                | {"ssl.endpoint.identification.algorithm": ""}
            )
        )
        with pytest.raises(ssl.SSLError):
            shake_hands(server.context, client)


def test_certificate_is_refused_when_it_is_on_the_revocation_list(tmp_path: Path) -> None:
    directory = new_directory(tmp_path / "certificates", alice=None, bob=None)
    settings = {
        **broker_settings(directory, client_auth="required"),
        "penstock.ssl.crl.location": str(directory.revocations),
    }
    shake_hands(load_server(settings_of(settings)).context, client_context(directory, "alice"))
    directory.revoke("alice")
    server = load_server(settings_of(settings))
    with pytest.raises(ssl.SSLError, match="revoked"):
        shake_hands(server.context, client_context(directory, "alice"))
    shake_hands(server.context, client_context(directory, "bob"))


def test_brokers_would_refuse_each_other_when_their_trust_store_lacks_their_authority(
    directory: CertificateDirectory, tmp_path: Path
) -> None:
    other = new_directory(tmp_path / "other")
    settings = settings_of({**broker_settings(directory), "ssl.truststore.location": str(other.trusted)})
    with pytest.raises(ConfigError, match="brokers would refuse each other"):
        check_own_trust(settings, load_server(settings))


def test_certificate_takes_the_place_of_another_when_its_names_stay(tmp_path: Path) -> None:
    directory = new_directory(tmp_path / "certificates")
    settings = settings_of(broker_settings(directory))
    before = load_server(settings).certificate
    directory.renew(["broker"])
    check_replacement(before, load_server(settings).certificate, settings)
    directory.issue(Wanted("broker", "other", ("localhost",)))
    other = load_server(
        settings_of({**broker_settings(directory), "ssl.keystore.location": str(directory.file("other"))})
    )
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn\.changes"):
        check_replacement(before, other.certificate, settings)
    allowed = settings_of({**broker_settings(directory), "ssl.allow.dn.changes": "true"})
    with pytest.raises(ConfigError, match=r"ssl\.allow\.san\.changes"):
        check_replacement(before, other.certificate, allowed)


def test_secrets_do_not_show_when_settings_are_printed(directory: CertificateDirectory) -> None:
    given = {
        "ssl.keystore.key": "secret-1", "ssl.keystore.certificate.chain": "secret-2", "ssl.key.password": "secret-3",
        "ssl.keystore.password": "secret-4", "ssl.truststore.password": "secret-5",
        "ssl.truststore.certificates": "secret-6",
    }  # fmt: skip
    assert "secret" not in repr(settings_of(given))


def test_facts_are_those_of_the_certificate_when_a_server_is_loaded(directory: CertificateDirectory) -> None:
    facts = load_server(settings_of(broker_settings(directory))).certificate
    days = (facts.valid_until - datetime.datetime.now(datetime.UTC)).total_seconds() / 86_400
    assert 89 < days < 91
    assert len(facts.alternative_names) == 2
    assert not facts.is_self_issued
