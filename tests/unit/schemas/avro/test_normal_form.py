from __future__ import annotations

import pytest

from penstock.schemas.parsing import parse
from penstock.schemas.schema import Reference, SchemaType

RECORD = '{"type":"record","name":"R","fields":[%s]}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"type":"bytes","z":1,"scale":2,"a":{"y":1,"b":2},"precision":4,"logicalType":"decimal"}',
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":{"b":2,"y":1},"z":1}',
        ),
        # Not a logical type, so nothing but a property.
        ('{"type":"int","b":1,"logicalType":"uuid","a":1}', '{"type":"int","a":1,"b":1,"logicalType":"uuid"}'),
        ('{"type":"int","b":1,"logicalType":"date","a":1}', '{"type":"int","logicalType":"date","a":1,"b":1}'),
        (
            '{"type":"fixed","name":"F","size":2,"precision":5,"logicalType":"decimal"}',
            '{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":5}',
        ),
        (
            '{"type":"fixed","name":"F","size":2,"doc":"","aliases":["b","x.a"]}',
            '{"type":"fixed","name":"F","size":2,"aliases":["b","x.a"]}',
        ),
        (
            RECORD % '{"name":"f","type":"double","default":1,"aliases":["c","b"],"y":1,"x":2}',
            RECORD % '{"name":"f","type":"double","default":1.0,"aliases":["b","c"],"x":2,"y":1}',
        ),
        (
            RECORD % '{"name":"f","type":["null",{"type":"map","values":"float"}],"default":{"b":0.1,"a":7}}',
            RECORD % '{"name":"f","type":["null",{"type":"map","values":"float"}],"default":{"a":7.0,"b":0.1}}',
        ),
        (RECORD % '{"name":"f","type":"R","y":1,"x":2}', RECORD % '{"name":"f","type":"R","x":2,"y":1}'),
    ],
)
def test_what_has_no_order_is_sorted_when_normalized(text: str, expected: str) -> None:
    normalized = parse(SchemaType.AVRO, text).normalized()
    assert normalized.canonical_text == expected
    assert normalized.normalized().canonical_text == expected


def test_references_are_sorted_and_named_once_when_normalized() -> None:
    b, a = Reference("b", "s", 1), Reference("a", "s", 2)
    assert parse(SchemaType.AVRO, '"int"', [b, a, b]).normalized().references == (a, b)
