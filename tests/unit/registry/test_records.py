"""Records of `_schemas`: ours, Confluent's, and what is none."""

from __future__ import annotations

import json

import pytest

from penstock.registry.log import LogRecord
from penstock.registry.model import Config, Mode, StoredSchema
from penstock.registry.records import (
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Key,
    ModeKey,
    NoopKey,
    SchemaKey,
    UnreadableRecordError,
    content_of,
    decode_config,
    decode_key,
    decode_mode,
    decode_schema,
    encode_config,
    encode_key,
    encode_mode,
    encode_schema,
)
from penstock.registry.state import State
from penstock.schemas.compatibility import Level
from penstock.schemas.schema import Metadata, Reference, Rule, RuleSet, SchemaType
from tests.unit.registry.registering import Registry, record, refused

KEYS: list[tuple[Key, str]] = [
    (SchemaKey('s "1"é', 3), '{"keytype":"SCHEMA","subject":"s \\"1\\"é","version":3,"magic":1}'),
    (ConfigKey("s"), '{"keytype":"CONFIG","subject":"s","magic":0}'),
    (ConfigKey(""), '{"keytype":"CONFIG","subject":null,"magic":0}'),
    (ModeKey(":.c:"), '{"keytype":"MODE","subject":":.c:","magic":0}'),
    (DeleteSubjectKey("s"), '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
    (ContextKey("default", ".c"), '{"keytype":"CONTEXT","tenant":"default","context":".c"}'),
    (NoopKey(), '{"keytype":"NOOP","magic":0}'),
]


@pytest.mark.parametrize(("key", "text"), KEYS)
def test_keys_are_written_in_one_order_and_read_in_any(key: Key, text: str) -> None:
    assert encode_key(key).decode() == text
    assert decode_key(text.encode()) == key
    reordered = dict(reversed(json.loads(text).items()))
    assert decode_key(json.dumps(reordered, indent=2).encode()) == key


def test_a_schema_is_written_with_confluents_fields() -> None:
    content = content_of(
        SchemaType.JSON,
        '{"type":"object"}',
        (Reference("n", "r", 2),),
        Metadata.of(properties={"a": "b"}),
        RuleSet(domain_rules=(Rule(name="r", mode="WRITE", type="CEL"),)),
    )
    value = encode_schema(StoredSchema("s", 1, 7, content, deleted=True))
    assert list(json.loads(value)) == [
        "subject", "version", "id", "md5", "schemaType", "references", "metadata", "ruleSet", "schema", "deleted",
    ]  # fmt: skip
    decoded = decode_schema(value)
    assert (decoded.id, decoded.content, decoded.deleted) == (7, content, True)


def test_config_and_mode_come_back_as_they_were() -> None:
    config = Config(compatibility_level=Level.FULL, alias="t", default_metadata=Metadata.of(properties={"a": "b"}))
    assert decode_config(encode_config("s", config)) == config
    assert json.loads(encode_config("", config))["subject"] is None
    assert decode_mode(encode_mode("s", Mode.IMPORT)) is Mode.IMPORT
    # What Confluent's first releases wrote.
    assert decode_config(b'{"compatibilityLevel":"FORWARD"}') == Config(compatibility_level=Level.FORWARD)


@pytest.mark.parametrize(
    "key",
    [b"", b"\xff", b"[]", b"7", b'{"keytype":"SCHEMA"}', b'{"keytype":"SCHEMA","subject":"s","version":"1"}',
     b'{"keytype":"WEATHER"}', b'{"keytype":["SCHEMA"]}', b"[" * 100_000,
     b'{"keytype":"SCHEMA","subject":"s","version":' + b"9" * 5_000 + b"}"],
)  # fmt: skip
def test_keys_that_are_none_are_unreadable(key: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        decode_key(key)


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b'{"id":1,"schema":7}', b'{"schema":"x"}', b'{"id":-1,"schema":"x"}', b'{"id":true,"schema":""}',
     b'{"id":1,"schema":"x","schemaType":"THRIFT"}', b'{"id":1,"schema":"x","references":[7]}',
     b'{"id":1,"schema":"x","metadata":[]}', b'{"id":1,"schema":"\\ud800"}', b'{"id":1,"schemaType":[],"schema":""}'],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_skipped_and_counted(value: bytes) -> None:
    state = State()
    key = encode_key(SchemaKey("s", 1))
    state.replay(key, value, 0)
    state.replay(b"nonsense", value, 1)
    state.replay(b'{"keytype":"SCHEMA","subject":"\\ud800","version":1,"magic":1}', b'{"id":1,"schema":"x"}', 2)
    assert (state.skipped_records, state.next_offset, state.contexts) == (3, 3, {})
    good = content_of(SchemaType.AVRO, '"string"')
    state.replay(key, encode_schema(StoredSchema("s", 1, 1, good)), 3)
    assert state.stored("s", 1) is not None


def test_associations_of_others_are_passed_over_without_complaint() -> None:
    state = State()
    state.replay(b'{"keytype":"ASSOC","tenant":"default","guid":"x"}', b"{}", 0)
    assert state.skipped_records == 0


def test_another_spelling_of_a_key_is_removed_with_it() -> None:
    """Once the tombstone of our spelling is compacted away, the other spelling would bring the schema back."""
    other = b'{"magic":1,"subject":"s","version":1,"keytype":"SCHEMA"}'
    value = b'{"subject":"s","version":1,"id":1,"schema":"\\"string\\"","deleted":false}'
    registry = Registry([LogRecord(other, value)])
    assert registry.version("s", 1).id == 1
    registry.delete_version("s", 1)
    hidden = Registry(registry.log.compacted())
    assert hidden.version("s", 1, deleted=True).deleted
    registry.delete_version("s", 1, permanent=True)
    assert other not in {each.key for each in registry.log.compacted()}
    hidden.close()
    registry.close()


def test_a_schema_whose_id_names_another_text_is_not_applied_and_the_old_value_is_written_back(
    registry: Registry,
) -> None:
    first = registry.register("s", record("a"))
    key = encode_key(SchemaKey("t", 1))
    other = encode_schema(StoredSchema("t", 1, first.id, content_of(SchemaType.AVRO, '"string"')))
    overwriting = encode_schema(StoredSchema("s", 1, first.id, content_of(SchemaType.AVRO, '"int"')))
    registry.run(registry.log.write([LogRecord(key, other), LogRecord(encode_key(SchemaKey("s", 1)), overwriting)]))
    assert registry.version("s", 1) == first
    with refused(40401):
        registry.version("t", 1)
    registry.run(registry.service.repair())
    compacted = Registry(registry.log.compacted())
    assert compacted.version("s", 1) == first
    assert compacted.subjects() == ["s"]
    assert compacted.state.overdue() == registry.state.overdue() == []
    compacted.close()


def test_a_soft_deletion_by_confluents_record_holds_up_to_its_version(registry: Registry) -> None:
    for fields in (("a",), ("a", "b?"), ("a", "c?")):
        registry.register("s", record(*fields))
    key = encode_key(DeleteSubjectKey("s"))
    registry.run(registry.log.write([LogRecord(key, b'{"subject":"s","version":2}')]))
    assert registry.versions("s") == [3]
    registry.run(registry.log.write([LogRecord(b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}', b"{}")]))
    with refused(40402):
        registry.version("s", 2, deleted=True)
    assert registry.version("s", 3).id == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b'{"id":1,"schema":"a","schema":"b"}', "b"),
        (b'{"id":1,"schema":"a","other":NaN}', "a"),
        (b'{"id":1,"schema":"a","other":"\\ud800"}', "a"),
        (b'{"id":1,"schema":"a","other":1234567890123456789012345678901234567890}', "a"),
        (b' {"id": 1, "schema": "\\ud83d\\ude00"} ', "\U0001f600"),
    ],
)
def test_a_value_is_read_when_only_a_lenient_reader_takes_it(value: bytes, text: str) -> None:
    assert decode_schema(value).content.text == text


@pytest.mark.parametrize("value", [b"", b"[]", b"null", b"\xff", b'{"id":"\xff"}', b'{"id":1}{"id":2}', b"[" * 100_000])
def test_a_value_that_no_reader_takes_is_unreadable(value: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        decode_schema(value)
