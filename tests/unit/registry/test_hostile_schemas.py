"""Schemas that want to keep the registry busy get an error, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.registry.log import LogRecord
from penstock.registry.model import SchemaRequest, StoredSchema
from penstock.registry.records import SchemaKey, content_of, encode_key, encode_schema
from penstock.schemas.schema import Reference, SchemaType
from tests.unit.registry.registering import Registry, record, refused

DEEP = "[" * 5_000 + "]" * 5_000
WIDE = json.dumps([f"T{number}" for number in range(60_000)])
NESTED = '{"type":"array","items":' * 2_000 + '"int"' + "}" * 2_000


@pytest.mark.parametrize(
    ("text", "schema_type"),
    [(DEEP, "AVRO"), (DEEP, "JSON"), (DEEP, "PROTOBUF"), (WIDE, "AVRO"), (NESTED, "AVRO"),
     ('{"not":' * 5_000 + "{}" + "}" * 5_000, "JSON"), ('"' + "x" * (1 << 20) + '"', "AVRO"),
     ("message M { " * 3_000 + "}" * 3_000, "PROTOBUF")],
)  # fmt: skip
def test_what_is_too_large_or_too_deep_is_refused(registry: Registry, text: str, schema_type: str) -> None:
    for operation in (registry.register, registry.is_compatible):
        with refused(42201):
            operation("s", text, schema_type=schema_type)


def chain_of_names(length: int, last: str = "int") -> str:
    """Records that name each other before they are defined: the stored text has each within the one before."""
    inner = [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "a", "type": f"R{n + 1}" if n < length else last}]}
        for n in range(length, 0, -1)
    ]
    fields = [{"name": "a", "type": "R1"}, {"name": "b", "type": ["null", *inner]}]
    return json.dumps({"type": "record", "name": "R0", "fields": fields})


def chain_of_definitions(length: int) -> str:
    definitions: dict[str, object] = {
        f"d{n}": {"type": "object", "properties": {"a": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(length)
    }
    definitions[f"d{length}"] = {"type": "string"}
    return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})


CHOICES = json.dumps({"oneOf": [{"type": "object", "properties": {f"p{n}": {"const": n}}} for n in range(400)]})


@pytest.mark.parametrize(
    ("schema_type", "text", "reason"),
    [
        ("AVRO", chain_of_names(60), "nests more than 128 deep"),
        ("JSON", chain_of_definitions(100), "nest types more than 64 deep"),
        ("JSON", CHOICES, "cannot be compared within the limits"),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_first_version_is_refused_when_no_later_one_could_be_compared_with_it(
    registry: Registry, schema_type: str, text: str, reason: str, normalize: bool
) -> None:
    with refused(42201, reason):
        registry.register("s", text, schema_type=schema_type, normalize=normalize)
    with refused(42201, reason):
        registry.is_compatible("s", text, schema_type=schema_type)
    plain = '"string"' if schema_type == "AVRO" else "{}"
    assert registry.register("s", plain, schema_type=schema_type).version == 1
    assert registry.is_compatible("s", plain, "latest", schema_type=schema_type)


def test_schema_that_cannot_be_compared_is_taken_when_nothing_is_compared(registry: Registry) -> None:
    registry.configure("s", compatibility="NONE")
    assert registry.register("s", chain_of_definitions(100), schema_type="JSON").version == 1
    with refused(42201, "nests more than 128 deep"):  # nobody could read the text that would be stored
        registry.register("s", chain_of_names(60))


def test_schema_is_refused_when_it_nests_too_deep_by_what_it_refers_to(registry: Registry) -> None:
    def level(n: int) -> tuple[str, tuple[Reference, ...]]:
        below = (Reference(f"L{n - 1}", f"l{n - 1}", 1),) if n else ()
        return record("x", name=f"L{n}", types={"x": f"L{n - 1}"} if n else {}), below

    levels = [level(n) for n in range(150)]
    records = [imported(f"l{n}", 1, n + 1, text, *below) for n, (text, below) in enumerate(levels)]
    registry.run(registry.log.write(records))
    text, below = level(150)
    with refused(42201, "nest types more than 128 deep"):
        registry.register("s", text, references=below)
    text, below = level(100)
    assert registry.register("s", text, references=below).version == 1
    assert registry.is_compatible("s", text, references=below)


def test_deepest_text_that_can_be_written_is_compared_when_its_records_may_be_null(registry: Registry) -> None:
    text = '"int"'
    for n in range(31):
        text = f'{{"type":"record","name":"R{n}","fields":[{{"name":"a","type":["null",{text}],"default":null}}]}}'
    assert registry.register("s", text).version == 1
    assert registry.is_compatible("s", text.replace('"int"', '"long"'), "latest")


def imported(subject: str, version: int, schema_id: int, text: str, *references: Reference) -> LogRecord:
    stored = StoredSchema(subject, version, schema_id, content_of(SchemaType.AVRO, text, references))
    return LogRecord(encode_key(SchemaKey(subject, version)), encode_schema(stored))


def test_a_cycle_of_references_ends(registry: Registry) -> None:
    """Only somebody else's log can have one: what a registration refers to is there before it."""
    registry.run(
        registry.log.write(
            [
                imported("a", 1, 1, record("x", name="A"), Reference("B", "b", 1)),
                imported("b", 1, 2, record("x", name="B"), Reference("A", "a", 1), Reference("B", "b", 1)),
            ]
        )
    )
    text = record("x", types={"x": "A"})
    assert registry.register("s", text, references=(Reference("A", "a", 1),)).version == 1


def test_a_long_chain_of_references_ends_in_an_error(registry: Registry) -> None:
    chain = [imported("s0", 1, 1, record("x", name="R0"))]
    chain += [
        imported(f"s{n}", 1, n + 1, record("x", name=f"R{n}"), Reference(f"R{n - 1}", f"s{n - 1}", 1))
        for n in range(1, 1_200)
    ]
    registry.run(registry.log.write(chain))
    with refused(42201, "refers to more than"):
        registry.register("s", record("y"), references=(Reference("R1199", "s1199", 1),))


def test_references_that_fan_out_are_each_resolved_once(registry: Registry) -> None:
    """Every level refers to both schemas of the level below: 2^20 ways down, and 40 schemas."""
    records: list[LogRecord] = []
    for level in range(20):
        below = [Reference(f"L{level - 1}{side}", f"l{level - 1}{side}", 1) for side in "ab"] if level else []
        for number, side in enumerate("ab"):
            name = f"L{level}{side}"
            records.append(imported(name.lower(), 1, 2 * level + number + 1, record("x", name=name), *below))
    registry.run(registry.log.write(records))
    stored = registry.register("s", record("x"), references=(Reference("L19a", "l19a", 1),))
    assert stored.version == 1


def test_others_are_answered_while_slow_schemas_are_parsed(registry: Registry) -> None:
    registry.register("quick", record("a"))
    slow = json.dumps({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2_000)}})

    async def ask() -> bool:
        tasks = [
            asyncio.create_task(registry.service.subjects.register(f"s{n}", SchemaRequest(slow, "JSON")))
            for n in range(3)
        ]
        await asyncio.sleep(0)
        await registry.service.schemas.by_id(1)
        was_first = not any(task.done() for task in tasks)
        await asyncio.gather(*tasks)
        return was_first

    assert registry.run(ask())
