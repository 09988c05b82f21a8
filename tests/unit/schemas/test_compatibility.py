"""Levels, groups, reserved fields, and the messages in Confluent's form."""

from __future__ import annotations

import pytest

from penstock.schemas.compatibility import CompatibilityRules, Level, Version, check
from penstock.schemas.parsing import parse
from penstock.schemas.schema import Metadata, ParsedSchema, SchemaType


def avro(text: str) -> ParsedSchema:
    return parse(SchemaType.AVRO, text)


INT, LONG, STRING = avro('"int"'), avro('"long"'), avro('"string"')


def messages(new: ParsedSchema, older: list[ParsedSchema], level: Level) -> list[str]:
    versions = [Version(index + 1, schema) for index, schema in enumerate(older)]
    return check(new, None, versions, CompatibilityRules(level))


@pytest.mark.parametrize(
    ("level", "new", "older", "fits"),
    [
        (Level.NONE, STRING, [INT], True),
        (Level.BACKWARD, LONG, [INT], True),
        (Level.BACKWARD, INT, [LONG], False),
        (Level.BACKWARD, INT, [], True),
        (Level.BACKWARD, LONG, [STRING, INT], True),
        (Level.BACKWARD_TRANSITIVE, LONG, [STRING, INT], False),
        (Level.FORWARD, INT, [LONG], True),
        (Level.FORWARD, LONG, [INT], False),
        (Level.FORWARD, INT, [STRING, LONG], True),
        (Level.FORWARD_TRANSITIVE, INT, [STRING, LONG], False),
        (Level.FULL, INT, [LONG], False),
        (Level.FULL, LONG, [INT], False),
        (Level.FULL, INT, [STRING, INT], True),
        (Level.FULL_TRANSITIVE, INT, [STRING, INT], False),
    ],
)
def test_level_decides_which_versions_count_and_who_reads_whom(
    level: Level, new: ParsedSchema, older: list[ParsedSchema], fits: bool
) -> None:
    assert (messages(new, older, level) == []) is fits


def test_messages_are_in_confluents_form_when_backward_fails() -> None:
    assert messages(INT, [STRING], Level.BACKWARD) == [
        (
            "{errorType:'TYPE_MISMATCH', description:'The type (path '/') of a field in the new schema does not match "
            "with the old schema', additionalInfo:'reader type: INT not compatible with writer type: STRING'}"
        ),
        "{oldSchemaVersion: 1}",
        "{oldSchema: '\"string\"'}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]


def test_messages_say_old_reads_new_when_forward_fails() -> None:
    first, version, *_ = messages(LONG, [STRING, INT], Level.FORWARD)
    assert "in the old schema does not match with the new schema" in first
    assert version == "{oldSchemaVersion: 2}"


def test_the_old_schema_is_named_once_when_both_directions_fail() -> None:
    found = messages(STRING, [INT], Level.FULL)
    assert len([each for each in found if "TYPE_MISMATCH" in each]) == 2
    assert found[2:] == [
        "{oldSchemaVersion: 1}",
        "{oldSchema: '\"int\"'}",
        "{validateFields: 'false', compatibility: 'FULL'}",
    ]


def test_a_large_old_schema_is_cut() -> None:
    old = avro('{"type":"string","x":"%s"}' % ("y" * 20_000))
    (shown,) = [each for each in messages(INT, [old], Level.BACKWARD) if "oldSchema:" in each]
    assert shown.startswith("{oldSchema: <truncated> '")
    assert len(shown) < 11_000


def test_another_format_is_never_compatible() -> None:
    class Other:
        schema_type = SchemaType.PROTOBUF

    found = check(INT, None, [Version(1, Other())], CompatibilityRules())  # type: ignore[arg-type]
    assert found[0] == "Incompatible because of different schema type"


def test_only_versions_of_the_same_group_count_when_there_is_a_group() -> None:
    rules = CompatibilityRules(Level.BACKWARD_TRANSITIVE, group="major")
    one, two = Metadata.of(properties={"major": "1"}), Metadata.of(properties={"major": "2"})
    assert check(INT, two, [Version(1, STRING, one), Version(2, STRING)], rules) == []
    assert check(INT, two, [Version(1, STRING, two), Version(2, STRING, one)], rules)
    assert check(INT, None, [Version(1, STRING)], rules)


def test_reserved_fields_are_kept_and_not_used_when_fields_are_validated() -> None:
    schema = avro('{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')
    rules = CompatibilityRules(Level.BACKWARD, validate_fields=True)
    reserved = Metadata.of(properties={"confluent:reserved": "a, b"})
    assert check(schema, reserved, [], rules) == [
        "The new schema has the field a, which its metadata reserves",
        "{validateFields: 'true', compatibility: 'BACKWARD'}",
    ]
    (removed, _) = check(schema, None, [Version(1, schema, Metadata.of(properties={"confluent:reserved": "z"}))], rules)
    assert removed.startswith("The field z, which the old schema reserves")
