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
