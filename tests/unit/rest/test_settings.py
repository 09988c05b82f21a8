"""Settings of the REST proxy: Confluent's names, and nothing that is misspelt."""

from __future__ import annotations

import pytest

from penstock.core.config.types import ConfigError
from penstock.rest.settings import IGNORED, REST_KEYS, RestSettings


def test_values_are_the_defaults_when_nothing_is_given() -> None:
    settings = RestSettings.of({})
    assert settings.number("consumer.instance.timeout.ms") == 300_000
    assert settings.number("consumer.request.timeout.ms") == 1_000
    assert settings.number("consumer.request.max.bytes") == 64 * 1024 * 1024
    assert settings.client == {}


def test_client_settings_are_passed_on_when_they_have_any_of_the_prefixes() -> None:
    settings = RestSettings.of(
        {
            "producer.sasl.mechanism": "PLAIN",
            "admin.security.protocol": "SASL_PLAINTEXT",
            "client.security.protocol": "SASL_SSL",
            "client.ssl.truststore.location": "ca.pem",
            "schema.registry.url": "http://r:8081",
            "schema.registry.basic.auth.user.info": "a:b",
        }
    )
    assert settings.client == {
        "sasl.mechanism": "PLAIN",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": "ca.pem",
    }
    assert settings.registry == {
        "schema.registry.url": "http://r:8081",
        "schema.registry.basic.auth.user.info": "a:b",
    }


@pytest.mark.parametrize("name", ["consumer.instance.timout.ms", "listner", "producer.acks", "penstock.rest.peer"])
def test_key_is_refused_when_nobody_knows_it(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        RestSettings.of({name: "1"})


def test_keys_of_kafka_rest_are_accepted_when_they_have_no_effect() -> None:
    RestSettings.of(dict.fromkeys(IGNORED, "1"))
    assert not IGNORED.intersection(key.name for key in REST_KEYS)
