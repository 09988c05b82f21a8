"""What the options of a service's start command, its files and the environment become."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.services.start_properties import start_properties


def properties(path: Path, given: str | None, *sets: str) -> dict[str, str]:
    named = {"bootstrap.servers": given, "listeners": None}
    client = path.with_name("client.properties")
    client.write_text("sasl.mechanism=PLAIN\n")
    return start_properties(path, client, named, sets, client_prefix="client.", servers="bootstrap.servers")


def test_the_environment_names_the_brokers_when_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "env:9092")
    file = tmp_path / "rest.properties"
    file.write_text("id=a\n")
    assert properties(file, None) == {"id": "a", "client.sasl.mechanism": "PLAIN", "bootstrap.servers": "env:9092"}
    assert properties(file, "option:9092")["bootstrap.servers"] == "option:9092"
    assert properties(file, "option:9092", "bootstrap.servers=set:9092")["bootstrap.servers"] == "set:9092"
    file.write_text("bootstrap.servers=file:9092\n")
    assert properties(file, None)["bootstrap.servers"] == "file:9092"


@pytest.mark.parametrize(
    ("prefix", "servers"), [("client.", "bootstrap.servers"), ("kafkastore.", "kafkastore.bootstrap.servers")]
)
def test_the_client_file_names_the_brokers_when_no_option_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, servers: str
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "env:9092")
    client = tmp_path / "client.properties"
    client.write_text("bootstrap.servers=client:9092\nsasl.mechanism=PLAIN\n")

    def read(option: str | None) -> dict[str, str]:
        return start_properties(None, client, {servers: option}, (), client_prefix=prefix, servers=servers)

    assert read(None) == {servers: "client:9092", f"{prefix}sasl.mechanism": "PLAIN"}
    assert read("option:9092")[servers] == "option:9092"
