"""The options of `penstock registry start`, with and without the full parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.errors import UsageError
from penstock.cli.services.registry_start import registry_properties, start_registry
from penstock.cli.services.start_options import RegistryOptions, parse_registry_arguments


def test_plain_options_are_read_without_the_full_parser() -> None:
    given = ["registry", "start", "--listen=h:1", "-b", "k:2", "--insecure", "--set", "a=b", "--set=c=d"]
    assert parse_registry_arguments(given) == RegistryOptions("h:1", "k:2", None, None, ("a=b", "c=d"), insecure=True)


@pytest.mark.parametrize("given", [["registry"], ["registry", "start", "--help"], ["registry", "start", "--listen"]])
def test_everything_else_goes_to_the_full_parser(given: list[str]) -> None:
    assert parse_registry_arguments(given) is None


def test_later_sources_of_settings_beat_earlier_ones(tmp_path: Path) -> None:
    config, client = tmp_path / "registry.properties", tmp_path / "client.properties"
    config.write_text("kafkastore.bootstrap.servers=one:1\nkafkastore.topic=t\nlisteners=http://a:1\n")
    client.write_text("security.protocol=SSL\nbootstrap.servers=two:2\n")
    options = RegistryOptions(config=str(config), command_config=str(client), listen="b:2", set=("kafkastore.topic=u",))
    assert registry_properties(options) == {
        "kafkastore.bootstrap.servers": "two:2",
        "kafkastore.security.protocol": "SSL",
        "kafkastore.topic": "u",
        "listeners": "b:2",
    }


def test_a_setting_that_nobody_knows_ends_the_command_with_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean"):
        start_registry(RegistryOptions(set=("kafkstore.topic=x",)))
