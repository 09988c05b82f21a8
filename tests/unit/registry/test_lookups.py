"""Reads: lists, versions, ids, guids, contexts, aliases, compatibility."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.registry.log import LogRecord
from penstock.registry.model import (
    CompatibilityAnswer,
    ContextId,
    Deleted,
    Page,
    Rendering,
    SchemaRequest,
    SubjectVersion,
)
from penstock.schemas.schema import Metadata, Reference, Rule, RuleSet
from tests.unit.registry.registering import Registry, record, refused


@pytest.mark.parametrize("version", ["0", "-2", "2147483648", "one", "1.0", " 1", "", "\u0661"])
def test_what_is_no_version_is_refused(registry: Registry, version: str) -> None:
    registry.register("s", record("a"))
    with refused(42202, "The specified version"):
        registry.version("s", version)


def test_subjects_are_listed_by_prefix_and_context(registry: Registry) -> None:
    for subject in ("b", "a-value", "a-key", ":.c:a", ":.c:b", ":.d:a"):
        registry.register(subject, record("x"))
    registry.delete("b")
    assert registry.subjects() == ["a-key", "a-value"]
    assert registry.subjects("a-v") == ["a-value"]
    assert registry.subjects(":.c:") == [":.c:a", ":.c:b"]
    assert registry.subjects(":*:a") == ["a-key", "a-value", ":.c:a", ":.d:a"]
    assert registry.subjects(deleted=Deleted.INCLUDED) == ["a-key", "a-value", "b"]
    assert registry.subjects(deleted=Deleted.ONLY) == ["b"]
    names = registry.service.subjects.names
    assert registry.run(names(":*:", page=Page(1, 2))) == ["a-value", ":.c:a"]
    assert registry.run(names(page=Page(5, -1))) == []
    assert registry.run(registry.service.contexts.names()) == [".", ".c", ".d"]
    assert registry.run(registry.service.contexts.names(".c")) == [".c"]


def test_versions_are_listed_with_deleted_ones_as_asked(registry: Registry) -> None:
    for fields in (("a",), ("a", "b?"), ("a", "c?")):
        registry.register("s", record(*fields))
    registry.delete_version("s", 2)
    assert registry.versions("s") == [1, 3]
    assert registry.versions("s", Deleted.ONLY) == [2]
    versions = registry.service.subjects.versions
    assert registry.run(versions("s", deleted=Deleted.INCLUDED, negative=True)) == [1, -2, 3]
    assert registry.run(versions("s", page=Page(1, 1))) == [3]
    with refused(40401):
        registry.versions("t")


def test_ids_and_guids_lead_to_schemas_and_to_those_who_have_them(registry: Registry) -> None:
    stored = registry.register("s", record("a"))
    registry.register("t", record("a"))
    registry.register(":.c:s", record("c"))
    registry.register(":.c:s", record("c", "d?"))
    registry.register(":.c:t", record("a"))
    schemas = registry.service.schemas
    assert registry.run(schemas.by_id(1, fetch_max_id=True)).max_id == 1
    assert registry.run(schemas.by_id(1)).content is stored.content
    assert registry.run(schemas.subjects_by_id(1)) == ["s", "t"]
    registry.delete("t")
    assert registry.run(schemas.versions_by_id(1)) == [SubjectVersion("s", 1)]
    assert registry.run(schemas.subjects_by_id(1, deleted=True, page=Page(1, 1))) == ["t"]
    assert registry.run(schemas.by_guid(stored.guid)).text == stored.content.text
    assert registry.run(schemas.ids_by_guid(stored.guid)) == [ContextId(".", 1), ContextId(".c", 3)]
    for wrong in ("nonsense", "00000000-0000-0000-0000-000000000000"):
        with refused(40403, "not found"):
            registry.run(schemas.by_guid(wrong))
    with refused(40403, "Schema 2 not found"):
        registry.text_by_id(2)
    assert registry.run(schemas.types()) == ["JSON", "PROTOBUF", "AVRO"]


def test_an_id_is_one_of_the_context_of_the_subject(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.register(":.c:t", record("b"))
    assert '"a"' in registry.text_by_id(1)
    assert '"b"' in registry.text_by_id(1, ":.c:")
    assert '"b"' in registry.text_by_id(1, ":.c:whatever")
    # A subject without a context is looked for in all of them.
    assert '"b"' in registry.text_by_id(1, "t")
    assert '"a"' in registry.text_by_id(1, "s")
    with refused(40403):
        registry.text_by_id(1, ":.d:t")


def test_a_name_without_a_context_is_sought_in_all_when_the_default_one_does_not_have_it(registry: Registry) -> None:
    stored = registry.register(":.c:s", record("a"))
    assert registry.version("s", "latest") == stored
    assert registry.lookup("s", record("a")) == stored
    registry.register("s", record("b"))
    assert registry.version("s", "latest").subject == "s"
    with refused(40401):
        registry.version(":.d:s", 1)
    assert registry.version(":.:s", 1).subject == "s"


def test_a_subject_acts_on_its_alias(registry: Registry) -> None:
    registry.configure(":.c:short", alias="long")
    stored = registry.register(":.c:short", record("a"))
    assert stored.subject == ":.c:long"
    assert registry.version(":.c:short", 1) == stored
    assert registry.versions(":.c:short") == [1]
    assert not registry.is_compatible(":.c:short", record("a", "b"))
    assert registry.subjects(":.c:") == [":.c:long"]
    found = registry.run(registry.service.schemas.search(":.c:s", aliases=True))
    assert [(each.stored, each.aliases) for each in found] == [(stored, (":.c:short",))]
    assert registry.run(registry.service.schemas.search(":.c:s")) == []
    assert registry.delete(":.c:short") == [1]


def test_schemas_are_searched(registry: Registry) -> None:
    rules = RuleSet(domain_rules=(Rule(name="r", kind="CONDITION", mode="WRITE", type="CEL"),))
    registry.register("s", record("a"))
    registry.register("s", record("a", "b?"), rule_set=rules)
    registry.register("t", record("a"))
    search = registry.service.schemas.search

    def found(prefix: str = "", **query: object) -> list[tuple[str, int]]:
        answers = registry.run(search(prefix, **query))  # type: ignore[arg-type]
        return [(each.stored.subject, each.stored.version) for each in answers]

    assert found() == [("s", 1), ("s", 2), ("t", 1)]
    assert found("s", latest_only=True) == [("s", 2)]
    assert found(rule_type="CEL") == [("s", 2)]
    assert found(page=Page(1, 1)) == [("s", 2)]
    registry.delete("s")
    assert found() == [("t", 1)]
    assert found(deleted=True) == [("s", 1), ("s", 2), ("t", 1)]


def test_the_newest_version_with_certain_properties_is_found(registry: Registry) -> None:
    for major, fields in (("1", ("a",)), ("1", ("a", "b?")), ("2", ("a", "c?"))):
        registry.register("s", record(*fields), metadata=Metadata.of(properties={"major": major}))
    latest = registry.service.subjects.latest_with_metadata
    assert registry.run(latest("s", {"major": "1"})).stored.version == 2
    assert registry.run(latest("s", {})).stored.version == 3
    with refused(40403):
        registry.run(latest("s", {"major": "3"}))
    with refused(40401):
        registry.run(latest("t", {}))


def test_references_are_given_with_their_contexts_when_asked(registry: Registry) -> None:
    registry.register(":.c:base", record("a", name="Base"))
    registry.register(":.c:s", record("b", types={"b": "Base"}), references=(Reference("Base", "base", 1),))
    qualified = Rendering(reference_format="qualified")
    subjects, schemas = registry.service.subjects, registry.service.schemas
    assert registry.run(subjects.version(":.c:s", "1")).references == (Reference("Base", "base", 1),)
    for answer in (
        registry.run(subjects.version(":.c:s", "1", rendering=qualified)).references,
        registry.run(schemas.by_id(2, subject=":.c:", rendering=qualified)).references,
    ):
        assert answer == (Reference("Base", ":.c:base", 1),)
    assert '"Base"' in registry.run(schemas.text_by_id(2, subject=":.c:", rendering=Rendering("resolved")))


def test_compatibility_is_asked_with_one_version_or_with_what_a_registration_would_meet(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.register("s", record("b?"))
    assert registry.is_compatible("s", record("c?"), "latest")
    assert not registry.is_compatible("s", record("c"), 1)
    assert registry.is_compatible("s", record("a", "c?"), 1)
    registry.configure("s", compatibility="FULL_TRANSITIVE")
    assert registry.is_compatible("s", record("b?", "c?"), "latest")
    assert not registry.is_compatible("s", record("b?", "c?"))
    assert registry.is_compatible("unknown", record("a"), "latest")
    assert registry.is_compatible("unknown", record("a"))
    for subject, version in (("s", 3), ("unknown", 1)):
        with refused(40402):
            registry.is_compatible(subject, record("a"), version)
    with refused(42201):
        registry.is_compatible("s", "{")
    assert registry.versions("s") == [1, 2]


def test_messages_are_given_when_asked(registry: Registry) -> None:
    registry.register("s", record("a"))
    ask, request = registry.service.compatibility.with_subject, SchemaRequest(record("a", "b"))
    assert registry.run(ask("s", request)) == CompatibilityAnswer(is_compatible=False)
    messages = registry.run(ask("s", request, verbose=True)).messages
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in messages[0]
    assert "{oldSchemaVersion: 1}" in messages


def test_a_group_is_compared_with_itself_alone(registry: Registry) -> None:
    registry.configure("s", compatibilityGroup="major")
    registry.register("s", record("a"), metadata=Metadata.of(properties={"major": "1"}))
    second = Metadata.of(properties={"major": "2"})
    assert registry.is_compatible("s", record("b"), metadata=second)
    assert registry.register("s", record("b"), metadata=second).version == 2
    with refused(409):
        registry.register("s", record("b", "c"), metadata=second)


def test_nothing_is_associated_with_a_topic(registry: Registry) -> None:
    associations = registry.service.associations
    assert registry.run(associations.by_resource_name("-", "topic")) == []
    assert registry.run(associations.by_resource_id("id")) == []
    assert registry.run(associations.by_subject("s")) == []
    with refused(42212):
        registry.run(associations.change())
    with refused(40410):
        registry.run(associations.delete("id"))


def test_search_counts_what_the_caller_may_see_alone_when_pages_are_asked_for(registry: Registry) -> None:
    for number in range(6):
        registry.register(f"s{number}", record("a"))
    search = registry.service.schemas.search
    found = registry.run(search(page=Page(1, 1), is_shown=lambda subject: subject in ("s1", "s3", "s5")))
    assert [each.stored.subject for each in found] == ["s3"]


def test_search_lets_others_have_their_turn_when_there_are_many_subjects(registry: Registry) -> None:
    async def both() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        assert await registry.service.schemas.search(is_shown=lambda _: False) == []
        beside.cancel()
        return turns

    key, value = '{"keytype":"SCHEMA","subject":"%s","version":1,"magic":1}', '{"subject":"%s","version":1,"id":1,'
    value += '"schema":"\\"string\\"","deleted":false}'
    names = [f"s{number}" for number in range(3_000)]
    registry.run(registry.log.write([LogRecord((key % each).encode(), (value % each).encode()) for each in names]))
    assert registry.run(both()) >= 3


def test_search_gives_less_than_was_asked_for_when_the_schemas_are_huge(registry: Registry) -> None:
    text = json.dumps({"type": "string", "doc": "x" * 900_000})
    for number in range(80):
        content = {"subject": f"s{number}", "version": 1, "id": number + 1, "schema": f"{text[:-2]}{number}" + '"}'}
        key = json.dumps({"keytype": "SCHEMA", "subject": f"s{number}", "version": 1, "magic": 1})
        registry.run(registry.log.write([LogRecord(key.encode(), json.dumps(content).encode())]))
    found = registry.run(registry.service.schemas.search())
    assert 60 < len(found) < 80
    rest = registry.run(registry.service.schemas.search(page=Page(len(found))))
    assert len(found) + len(rest) == 80
