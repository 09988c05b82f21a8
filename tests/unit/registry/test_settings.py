"""The registry's settings, as Confluent's users write them."""

from __future__ import annotations

import pytest

from penstock.core.config.types import ConfigError
from penstock.registry.node.election import Identity
from penstock.registry.settings import RegistrySettings
from penstock.schemas.compatibility import Level


def test_a_properties_file_of_confluent_s_registry_will_do() -> None:
    read = RegistrySettings.parse(
        {
            "listeners": "http://0.0.0.0:8085",
            "host.name": "sr-1.example",
            "kafkastore.bootstrap.servers": "PLAINTEXT://one:9092,PLAINTEXT://two:9093",
            "kafkastore.topic": "_other",
            "kafkastore.topic.replication.factor": "2",
            "kafkastore.security.protocol": "SASL_SSL",
            "kafkastore.sasl.mechanism": "PLAIN",
            "kafkastore.group.id": "readers",
            "kafkastore.init.timeout.ms": "60000",
            "schema.compatibility.level": "full_transitive",
            "master.eligibility": "false",
            "debug": "false",
        }
    )
    assert read.bootstrap == (("one", 9092), ("two", 9093))
    assert read.node.topic == ("_other", 2)
    assert read.client == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    assert [key for key, _ in read.ignored] == ["kafkastore.group.id", "kafkastore.init.timeout.ms", "debug"]
    assert read.level is Level.FULL_TRANSITIVE
    assert read.identity(8085) == Identity("sr-1.example", 8085, is_eligible=False)


def test_an_instance_is_known_by_the_host_it_listens_on() -> None:
    assert RegistrySettings.parse({"listeners": "127.0.0.1:0"}).identity(4000).url == "http://127.0.0.1:4000"


@pytest.mark.parametrize(
    ("key", "text", "hint"),
    [
        ("kafkstore.topic", "x", "kafkastore.topic"),
        ("schema.compatibility.level", "sideways", "must be one of"),
        ("kafkastore.bootstrap.servers", "host:what", "not the address"),
        ("kafkastore.topic.replication.factor", "-1", "at least 0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_with_a_hint(key: str, text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        RegistrySettings.parse({key: text})
