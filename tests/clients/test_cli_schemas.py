"""`penstock schemas`, and `produce` and `consume` by schema, with a registry of ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.access.registry import REGISTRY_VARIABLE
from penstock.embedded import Broker
from penstock.embedded_registry import Registry
from tests.clients.cli_runner import Cli, Result

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
NOTED = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
BROKEN = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string"}]}
PROTO = (
    'syntax = "proto3"; package shop; message Other { int32 x = 1; } message Order { int64 id = 1; string note = 2; }'
)


@pytest.fixture(scope="module")
def registry(schema_registry: Registry) -> Iterator[Registry]:
    before = os.environ.get(REGISTRY_VARIABLE)
    os.environ[REGISTRY_VARIABLE] = schema_registry.url
    yield schema_registry
    if before is None:
        del os.environ[REGISTRY_VARIABLE]
    else:
        os.environ[REGISTRY_VARIABLE] = before


@pytest.fixture(scope="module")
def cli(penstock_broker: Broker, registry: Registry) -> Cli:
    return Cli(penstock_broker.bootstrap_servers)


class Files:
    """Writes schemas to files of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, content: Any, name: str = "schema.avsc") -> str:
        path = self._folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)


@pytest.fixture
def file(tmp_path: Path) -> Files:
    return Files(tmp_path)


def read_all(cli: Cli, topic: str, *options: str) -> Result:
    return cli.run("consume", topic, "--from", "beginning", "--exit", *options)


def test_a_schema_is_shown_when_it_was_registered(cli: Cli, file: Files) -> None:
    assert cli.run("schemas", "register", "shown", file(ORDER)).text.startswith("shown:1 has id ")
    second = cli.run("schemas", "register", "shown", file(NOTED), "--json").json
    assert (second["subject"], second["version"]) == ("shown", 2)
    assert json.loads(cli.run("schemas", "get", "shown").text)["fields"] == NOTED["fields"]
    by_id = cli.run("schemas", "get", str(second["id"]), "--json").json
    assert by_id["guid"] == second["guid"]
    assert cli.run("schemas", "get", second["guid"], "--json").json["schema"] == by_id["schema"]
    assert len(json.loads(cli.run("schemas", "get", "shown:1").text)["fields"]) == 1
    assert "shown" in cli.run("schemas", "list").text.splitlines()
    versions = cli.run("schemas", "list", "shown", "--json").json
    assert [each["version"] for each in versions] == [1, 2]
    assert "shown" in cli.run("schemas", "list", "--prefix", "sho", "--details").text


def test_a_schema_is_refused_with_reasons_when_it_does_not_fit(cli: Cli, file: Files) -> None:
    cli.run("schemas", "register", "strict", file(ORDER))
    assert cli.run("schemas", "check", "strict", file(NOTED)).code == 0
    checked = cli.try_run("schemas", "check", "strict", file(BROKEN))
    assert checked.code == 1
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in checked.text
    refused = cli.try_run("schemas", "register", "strict", file(BROKEN))
    assert refused.code == 1
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.err
    assert "penstock schemas diff" in refused.err
    assert not cli.try_run("schemas", "check", "strict", file(BROKEN), "--json").json["is_compatible"]


def test_a_diff_says_who_reads_whose_data(cli: Cli, file: Files) -> None:
    cli.run("schemas", "register", "changing", file(ORDER))
    shown = cli.run("schemas", "diff", "changing", file(BROKEN)).text
    assert '+      "name": "note",' in shown
    assert "The new schema reads data of the old one (BACKWARD): no" in shown
    assert "The old schema reads data of the new one (FORWARD): yes" in shown
    assert "The level is BACKWARD: the new schema may not follow." in shown
    cli.run("schemas", "register", "changing", file(NOTED))
    document = cli.run("schemas", "diff", "changing:1", "changing:2", "--json").json
    assert document["backward"]["compatible"]
    assert document["forward"]["compatible"]
    assert document["fits_level"]
    assert "the same text" in cli.run("schemas", "diff", "changing:2", "changing").text


def test_a_version_is_gone_when_it_was_deleted(cli: Cli, file: Files) -> None:
    cli.run("schemas", "register", "short-lived", file(ORDER))
    cli.run("schemas", "register", "short-lived", file(NOTED))
    assert cli.try_run("schemas", "delete", "short-lived:1").code == 2  # nobody is there to answer
    cli.run("schemas", "delete", "short-lived:1", "--yes")
    assert [each["version"] for each in cli.run("schemas", "list", "short-lived", "--json").json] == [2]
    listed = cli.run("schemas", "list", "short-lived", "--deleted", "--json").json
    assert [(each["version"], each.get("deleted", False)) for each in listed] == [(1, True), (2, False)]
    cli.run("schemas", "delete", "short-lived", "--permanent", "--yes")
    gone = cli.try_run("schemas", "get", "short-lived")
    assert gone.code == 1
    assert "40401" in gone.err
    assert "penstock schemas list" in gone.err


def test_an_export_is_the_same_in_another_place_when_it_is_imported(cli: Cli, file: Files, tmp_path: Path) -> None:
    cli.run("schemas", "register", "moved-z", file(ORDER))
    referring = {"type": "array", "items": "shop.Order"}
    cli.run("schemas", "register", "moved-a", file(referring), "--reference", "shop.Order=moved-z:1")
    cli.run("schemas", "register", "moved-m", file(PROTO, "order.proto"))
    cli.run("schemas", "register", "moved-z", file(NOTED))
    cli.run("schemas", "delete", "moved-z:2", "--yes")
    exported = str(tmp_path / "all.json")
    assert "4 versions of 3 subjects." in cli.run("schemas", "export", exported, "--prefix", "moved-").err
    order = [(each["subject"], each["version"]) for each in json.loads(Path(exported).read_text())["schemas"]]
    assert order.index(("moved-z", 1)) < order.index(("moved-a", 1))
    cli.run("schemas", "import", exported, "--yes", "--context", "copy")
    for subject in ("moved-z", "moved-a", "moved-m"):
        there = cli.run("schemas", "list", f":.copy:{subject}", "--deleted", "--json").json
        assert [{**each, "subject": subject} for each in there] == cli.run(
            "schemas", "list", subject, "--deleted", "--json"
        ).json
    # Back to work: the mode is as it was, and the next schema has an id of its own.
    cli.run("schemas", "register", ":.copy:moved-z", file(NOTED))
    again = cli.try_run("schemas", "import", exported, "--yes", "--context", "copy")
    assert again.code == 1
    assert "--force" in again.err
    # A subject that kept the mode would take this.
    assert "incompatible" in cli.try_run("schemas", "register", ":.copy:moved-a", file('"string"')).err


def test_a_subject_is_imported_when_all_of_its_versions_are_deleted(cli: Cli, file: Files, tmp_path: Path) -> None:
    for subject in ("ended", "ended-not"):
        cli.run("schemas", "register", subject, file(ORDER))
    cli.run("schemas", "delete", "ended:1", "--yes")
    exported = str(tmp_path / "all.json")
    cli.run("schemas", "export", exported, "--prefix", "ended")
    # Deleting the last version takes the mode of the subject along, so there is none to take back.
    assert "2 versions" in cli.run("schemas", "import", exported, "--yes", "--context", "ends").err
    assert cli.run("schemas", "list", ":.ends:ended", "--deleted", "--json").json[0]["deleted"]
    cli.run("schemas", "register", ":.ends:ended-not", file(NOTED))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get", "nothing-here"), "penstock schemas list"),
        (("get", "987654"), "40403"),
        (("register", "s", "no-such-file.avsc"), "cannot read no-such-file.avsc"),
        pytest.param(("register", "s", __file__), "--type AVRO, JSON or PROTOBUF", id="a file of another type"),
        (("register", "s", "-", "--type", "AVRO"), "42201"),
        (("register", "s", "-", "--type", "AVRO", "--reference", "x"), "NAME=SUBJECT:VERSION"),
        (("import", "-"), "is no JSON"),
        (("list", "--registry", "http://127.0.0.1:9"), "penstock registry start"),
        (("list", "--registry", "ftp://x"), "Check --registry"),
        (("diff", "nothing-here", "nothing-there"), "40401"),
    ],
)
def test_an_error_says_what_to_do(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = cli.try_run("schemas", *arguments, stdin=b"{")
    assert result.code != 0
    assert message in result.err


def test_avro_comes_back_as_json_when_it_was_produced_by_a_file(cli: Cli, file: Files) -> None:
    topic = cli.new_topic()
    lines = b'"k1"\t{"id": 1}\n"k2"\t{"id": 2, "note": "untagged"}\n"k3"\tNULL\n'
    options = ("--schema", file(NOTED), "--key-schema", file('"string"', "key.avsc"), "-K", r"\t")
    cli.run("produce", topic, *options, "--null-marker", "NULL", stdin=lines)
    read = read_all(cli, topic, "--schema", "auto", "--key-schema", "auto", "--format", r"%k=%s\n").text
    assert read.splitlines() == [
        '"k1"={"id":1,"note":null}',
        '"k2"={"id":2,"note":{"string":"untagged"}}',
        '"k3"=null',
    ]
    assert set(cli.run("schemas", "list", "--prefix", topic, "--json").json) == {f"{topic}-key", f"{topic}-value"}


def test_records_are_the_same_when_they_go_from_topic_to_topic_by_schema(
    cli: Cli, registry: Registry, file: Files
) -> None:
    first, second = cli.new_topic(), cli.new_topic()
    cli.run("produce", first, "--schema", file('"string"'), stdin=b'"a"\n"b\\u00e9"\n')
    copied = read_all(cli, first, "--registry", registry.url, "--json").out
    assert all("value_schema_id" in json.loads(line) for line in copied.splitlines())
    cli.run("produce", second, "--format", "json", "--schema", f"{first}-value:latest", stdin=copied)
    assert read_all(cli, second).out == read_all(cli, first).out


def test_json_and_protobuf_come_back_when_they_were_produced(cli: Cli, registry: Registry, file: Files) -> None:
    topic = cli.new_topic()
    shape = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    cli.run("produce", topic, "--schema", file(shape, "shape.json"), "-v", '{"id": 1}')
    other = cli.new_topic()
    message = ("--message", "Order")
    cli.run("produce", other, "--schema", file(PROTO, "o.proto"), *message, "-v", '{"id": "5", "note": "x"}')
    assert read_all(cli, topic, "--registry", registry.url).text == '{"id":1}\n'
    assert read_all(cli, other, "--registry", registry.url).text == '{"id":"5","note":"x"}\n'
    by_id = cli.run("schemas", "list", f"{other}-value", "--json").json[0]["id"]
    cli.run("produce", other, "--schema", str(by_id), "-v", '{"x": 3}')
    assert read_all(cli, other, "--registry", registry.url).text.splitlines()[1] == '{"x":3}'


def test_a_line_is_named_when_it_does_not_fit_the_schema(cli: Cli, file: Files) -> None:
    topic = cli.new_topic()
    refused = cli.try_run("produce", topic, "--schema", file(ORDER), stdin=b'{"id": 1}\n{"id": "x"}\n')
    assert refused.code == 1
    assert "line 2: value: expected a whole number of 64 bits, not 'x', at id" in refused.err
    assert len(read_all(cli, topic, "--json").json_lines) == 1
    assert "no JSON" in cli.try_run("produce", topic, "--schema", file(ORDER), stdin=b"id=1\n").err
    assert "no such file" in cli.try_run("produce", topic, "--schema", "nowhere.avsc", stdin=b"1\n").err
    unregistered = cli.try_run("produce", topic, "--schema", file(NOTED), "--no-register", stdin=b"{}\n")
    assert "40403" in unregistered.err


def test_a_record_is_named_or_skipped_when_it_has_no_schema(cli: Cli, file: Files) -> None:
    topic = cli.new_topic()
    cli.run("produce", topic, "-v", "plain text")
    cli.run("produce", topic, "--schema", file(ORDER), "-v", '{"id": 1}')
    stopped = cli.try_run("consume", topic, "--from", "beginning", "--exit", "--schema", "auto")
    assert stopped.code == 1
    assert f"{topic}, partition 0, offset 0: the value cannot be read" in stopped.err
    assert stopped.text == ""
    cli.run("produce", topic, "-v", "plain text again")
    stopped = cli.try_run("consume", topic, "--from", "1", "--exit", "--schema", "auto")
    assert "offset 2" in stopped.err
    assert stopped.text == '{"id":1}\n', "what came before is printed"
    went_on = read_all(cli, topic, "--schema", "auto", "--skip-errors")
    assert went_on.text == '{"id":1}\n'
    assert "Skipped" in went_on.err


def test_bare_payloads_are_read_when_their_schema_is_named(cli: Cli, file: Files) -> None:
    topic = cli.new_topic()
    cli.run("produce", topic, "--format", "json", stdin=b'{"value_base64": "Ag=="}\n')
    assert read_all(cli, topic, "--schema", file(ORDER)).text == '{"id":1}\n'


def test_the_registry_of_a_property_file_is_asked_when_no_option_names_one(
    cli: Cli, registry: Registry, tmp_path: Path
) -> None:
    config = tmp_path / "registry.properties"
    config.write_text(f"schema.registry.url={registry.url}\nbasic.auth.user.info=ann:secret\n")
    named = ("--registry-config", str(config))
    assert cli.run("schemas", "list", "--json", *named).json == cli.run("schemas", "list", "--json").json
    config.write_text("schema.registry.url=http://127.0.0.1:9\n")
    assert cli.try_run("schemas", "list", *named).code == 3
    assert cli.run("schemas", "list", *named, "--registry", registry.url).code == 0
    config.write_text(f"schema.registry.url={registry.url}\nbasic.auth.user.info=secret\n")
    refused = cli.try_run("schemas", "list", *named)
    assert refused.code == 2
    assert "secret" not in refused.err
