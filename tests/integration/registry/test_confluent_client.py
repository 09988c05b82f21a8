"""confluent-kafka's client of the registry: every call that it knows, with the blocking and with the asyncio client."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tests.integration.registry.serving import Served


def record(*fields: tuple[str, object], name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]})


ONE_TEXT = record(("a", "int"))
ONE = Schema(ONE_TEXT, "AVRO")
TWO = Schema(
    json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}],
        }
    ),
    "AVRO",
)
UNFITTING = Schema(record(("a", "int"), ("c", "string")), "AVRO")


class Blocking:
    """The asyncio client, called as the other one is."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self._client, self._runner = client, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)

        def call(*args: Any, **options: Any) -> Any:
            result = found(*args, **options)
            return self._runner.run(result) if inspect.iscoroutine(result) else result

        return call


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, registry: Served) -> Iterator[Any]:
    """Without retries: an answer is right at once, or wrong."""
    settings = {"url": registry.url, "max.retries": 0}
    if request.param == "sync":
        with SchemaRegistryClient(settings) as made:
            yield made
        return
    with asyncio.Runner() as runner:
        other = AsyncSchemaRegistryClient(settings)
        yield Blocking(other, runner)
        runner.run(other.__aexit__(None, None, None))


def failure(caught: pytest.ExceptionInfo[SchemaRegistryError]) -> tuple[int, int]:
    return caught.value.http_status_code, caught.value.error_code


def test_schema_is_found_in_every_way_when_it_was_registered(client: Any, subject: str) -> None:
    schema_id = client.register_schema(subject, ONE)
    full = client.register_schema_full_response(subject, TWO, normalize_schemas=True)
    client.clear_caches()
    found = client.lookup_schema(subject, ONE)
    assert (found.schema_id, found.subject, found.version) == (schema_id, subject, 1)
    assert json.loads(client.get_schema(schema_id).schema_str) == json.loads(ONE_TEXT)
    assert client.get_schema(schema_id, subject, fmt="resolved").schema_type == "AVRO"
    assert json.loads(client.get_schema_by_guid(found.guid).schema_str) == json.loads(ONE_TEXT)
    assert subject in client.get_subjects()
    assert client.get_versions(subject) == [1, 2]
    assert client.get_version(subject, 1).schema_id == schema_id
    assert client.get_latest_version(subject).version == full.version == 2
    assert subject in client.get_subjects_by_schema_id(schema_id)
    assert (subject, 1) in [(each.subject, each.version) for each in client.get_schema_versions(schema_id)]
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}


def test_schema_is_refused_when_it_does_not_fit(client: Any, subject: str) -> None:
    client.register_schema(subject, ONE)
    with pytest.raises(
        SchemaRegistryError, match="Schema being registered is incompatible with an earlier schema"
    ) as e:
        client.register_schema(subject, UNFITTING)
    assert failure(e) == (409, 409)
    assert client.test_compatibility(subject, TWO)
    assert not client.test_compatibility(subject, UNFITTING, version=1)
    assert not client.test_compatibility_all_versions(subject, UNFITTING)


@pytest.mark.parametrize("text", ['{"type": "record"}', "nonsense", ""])
def test_schema_is_refused_when_it_is_none(client: Any, subject: str, text: str) -> None:
    client.register_schema(subject, ONE)
    for call in (client.register_schema, client.lookup_schema):
        with pytest.raises(SchemaRegistryError, match="Invalid schema") as e:
            call(subject, Schema(text, "AVRO"))
        assert failure(e) == (422, 42201)


def test_words_and_codes_are_confluents_when_something_is_not_there(client: Any, subject: str) -> None:
    cases: list[tuple[Any, tuple[object, ...], str, int]] = [
        (client.get_schema, (999_999,), "Schema .*not found", 40403),
        (client.lookup_schema, ("unknown", ONE), "Subject .*not found", 40401),
        (client.delete_subject, ("unknown",), "Subject .*not found", 40401),
        (client.get_versions, ("unknown",), "Subject .*not found", 40401),
        (client.get_version, (subject, 3), "Version .*not found", 40402),
        (client.get_version, (subject, "a"), "The specified version .*is not a valid version id", 42202),
        (client.lookup_schema, (subject, TWO), "Schema .*not found", 40403),
        (client.get_compatibility, (subject,), "does not have subject-level compatibility", 40408),
        (client.get_mode, (subject,), "does not have subject-level mode", 40409),
        (client.set_compatibility, (subject, "INVALID"), "Invalid compatibility level", 42203),
        (client.update_mode, (subject, "INVALID"), "Invalid mode", 42204),
        (client.get_schema_by_guid, ("00000000-0000-0000-0000-000000000000",), "Schema .*not found", 40403),
    ]
    client.register_schema(subject, ONE)
    for call, args, words, code in cases:
        with pytest.raises(SchemaRegistryError, match=words) as e:
            call(*args)
        assert failure(e) == (int(str(code)[:3]), code)


def test_versions_go_softly_and_then_for_good_when_they_are_deleted(client: Any, subject: str) -> None:
    client.register_schema(subject, ONE)
    client.register_schema(subject, TWO)
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert client.get_versions(subject, deleted=True) == [1, 2]
    assert client.delete_version(subject, 1, permanent=True) == 1
    assert client.delete_subject(subject) == [2]
    assert subject not in client.get_subjects()
    assert subject in client.get_subjects(deleted=True)
    with pytest.raises(SchemaRegistryError) as e:
        client.delete_subject(subject)
    assert failure(e) == (404, 40404)
    assert client.delete_subject(subject, permanent=True) == [2]
    assert subject not in client.get_subjects(deleted=True)


def test_config_is_kept_at_its_scope_when_it_is_set(client: Any, subject: str) -> None:
    assert client.set_compatibility(subject, "full_transitive") == {"compatibility": "FULL_TRANSITIVE"}
    assert client.get_compatibility(subject) == "FULL_TRANSITIVE"
    for level in ("FORWARD", "BACKWARD"):
        client.set_compatibility(level=level)
        assert client.get_compatibility() == level
    wanted = ServerConfig(compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major")
    assert client.set_config(subject, wanted) == {"compatibility": "NONE", "compatibilityGroup": "major"}
    found = client.get_config(subject)
    assert (found.compatibility_level, found.compatibility_group) == (ConfigCompatibilityLevel.NONE, "major")
    assert client.delete_config(subject).compatibility_group == "major"
    assert client.get_config().compatibility_level is ConfigCompatibilityLevel.BACKWARD


def test_nothing_is_written_when_the_mode_forbids_it(client: Any, subject: str) -> None:
    assert client.update_mode(subject, "READONLY") == "READONLY"
    assert client.get_mode(subject) == "READONLY"
    with pytest.raises(SchemaRegistryError) as e:
        client.register_schema(subject, ONE)
    assert failure(e) == (422, 42205)
    assert client.delete_mode(subject) == "READONLY"
    assert client.update_global_mode("READWRITE") == client.get_global_mode() == "READWRITE"
    client.register_schema(subject, ONE)


def test_contract_comes_back_when_a_schema_has_metadata_and_rules(client: Any, subject: str) -> None:
    rule = Rule("r", "", RuleKind.CONDITION, RuleMode.WRITE, "CEL", ["PII"], RuleParams({}), "true", None, None, False)
    metadata = Metadata(None, MetadataProperties({"owner": "me", "major": "1"}), None)
    client.register_schema(subject, Schema(ONE_TEXT, "AVRO", [], metadata, RuleSet(None, [rule])))
    client.clear_caches()
    found = client.get_latest_with_metadata(subject, {"owner": "me", "major": "1"}).schema
    assert found.metadata.properties.properties == {"owner": "me", "major": "1"}
    assert [each.name for each in found.rule_set.domain_rules] == ["r"]
    with pytest.raises(SchemaRegistryError):
        client.get_latest_with_metadata(subject, {"owner": "you"})


def test_reference_holds_what_it_names_when_that_is_deleted(client: Any, subject: str) -> None:
    part = f"{subject}/part 1"  # a slash, and a space
    client.register_schema(part, Schema(record(("x", "int"), name="Part"), "AVRO"))
    whole = Schema(record(("part", "Part"), name="Whole"), "AVRO", [SchemaReference("Part", part, 1)])
    whole_id = client.register_schema(subject, whole)
    client.clear_caches()
    assert client.get_referenced_by(part, 1) == [whole_id]
    assert client.get_schema(whole_id).references[0].subject == part
    with pytest.raises(SchemaRegistryError) as e:
        client.delete_subject(part)
    assert failure(e) == (422, 42206)


def test_contexts_are_apart_when_subjects_name_them(client: Any, subject: str) -> None:
    name = f":.{subject}:values"
    client.register_schema(name, ONE)
    assert f".{subject}" in client.get_contexts()
    assert client.get_latest_version(name).version == 1


def test_list_is_empty_when_serializers_ask_for_associations(client: Any) -> None:
    assert client.get_associations_by_resource_name("orders", "-", "topic", ["value"], 0, 10) == []
    with pytest.raises(SchemaRegistryError) as e:
        client.delete_associations("an-id", "topic", ["value"])
    assert failure(e) == (404, 40410)
