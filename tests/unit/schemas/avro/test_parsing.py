"""What is an Avro schema, and what its canonical text is: Java's `Schema.toString`."""

from __future__ import annotations

import json

import pytest

from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, ResolvedReference, SchemaType

RECORD = '{"type":"record","name":"R","fields":[%s]}'


def canonical(text: str, *references: str, is_new: bool = True) -> str:
    resolved = [ResolvedReference(f"r{index}", each) for index, each in enumerate(references)]
    return parse(SchemaType.AVRO, text, resolved=resolved, is_new=is_new).canonical_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"type": "string"}', '"string"'),
        ('"int"', '"int"'),
        ('{"type":"int","logicalType":"date"}', '{"type":"int","logicalType":"date"}'),
        ('["null", {"type": "array", "items": "int"}]', '["null",{"type":"array","items":"int"}]'),
        (
            '{"fields":[],"name":"a.b.R","type":"record","doc":"d","x":1,"aliases":["S","a.b.T","c.U"]}',
            '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":[],"x":1,"aliases":["S","T","c.U"]}',
        ),
        (
            RECORD % '{"type":"int","default":1,"order":"ignore","aliases":["g"],"p":{},"doc":"d","name":"f"}',
            RECORD % '{"name":"f","type":"int","doc":"d","default":1,"order":"ignore","aliases":["g"],"p":{}}',
        ),
        (RECORD % '{"name":"f","type":"int","order":"ASCENDING"}', RECORD % '{"name":"f","type":"int"}'),
        (
            RECORD % '{"name":"f","type":["null","R"],"default":null}',
            RECORD % '{"name":"f","type":["null","R"],"default":null}',
        ),
        (
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":'
                '{"type":"enum","name":"E","namespace":"n","symbols":["A"],"default":"A"}},{"name":"g","type":"n.E"}]}'
            ),
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":'
                '{"type":"enum","name":"E","symbols":["A"],"default":"A"}},{"name":"g","type":"E"}]}'
            ),
        ),
        (
            '{"type":"fixed","size":2,"name":"F","namespace":"","x":"\\u00e9\\u0001"}',
            '{"type":"fixed","name":"F","size":2,"x":"é\\u0001"}',
        ),
        (
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":'
                '{"type":"fixed","name":"F","namespace":"","size":1}},{"name":"g","type":"F"}]}'
            ),
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":'
                '{"type":"fixed","name":"F","namespace":"","size":1}},{"name":"g","type":"F"}]}'
            ),
        ),
        (
            RECORD % '{"name":"f","type":"double","default":12345678.50}',
            RECORD % '{"name":"f","type":"double","default":1.23456785E7}',
        ),
        (RECORD % '{"name":"f","type":"float","default":"1.5"}', RECORD % '{"name":"f","type":"float","default":1.5}'),
        (
            RECORD % '{"name":"f","type":"float","default":"NaN"}',
            RECORD % '{"name":"f","type":"float","default":"NaN"}',
        ),
        ('{"type":"error","name":"R","fields":[]}', '{"type":"error","name":"R","fields":[]}'),
        (
            '{"type":"array","items":{"type":"map","values":"long"},"x":[1]}',
            '{"type":"array","items":{"type":"map","values":"long"},"x":[1]}',
        ),
    ],
)
def test_canonical_text_is_that_of_java_when_parsed(text: str, expected: str) -> None:
    assert canonical(text) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("1", "Schema not yet supported"),
        ("{}", "No type"),
        ('"Unknown"', "Undefined schema"),
        ('{"type":"nothing"}', "Undefined schema"),
        ('{"type":{"type":"string"}}', "No type"),
        ('{"type":"record","fields":[]}', "No name"),
        ('{"type":"record","name":"R"}', "no fields"),
        ('{"type":"record","name":"int","fields":[]}', "named after primitives"),
        ('{"type":"record","name":"a-b","fields":[]}', "Invalid name"),
        ('{"type":"record","name":"1.R","fields":[]}', "Invalid name"),
        ('{"type":"record","name":"","fields":[]}', "Empty name"),
        (RECORD % '{"name":"f"}', "No field type"),
        (RECORD % '{"type":"int"}', "No field name"),
        (RECORD % "1", "No field name"),
        (RECORD % '{"name":"f","type":"int"},{"name":"f","type":"int"}', "Duplicate field f"),
        (RECORD % '{"name":"f","type":"int","order":"up"}', "Invalid order"),
        (RECORD % '{"name":"f","type":"int","default":"1"}', "Invalid default for field f"),
        (RECORD % '{"name":"f","type":"int","default":2147483648}', "Invalid default"),
        (RECORD % '{"name":"f","type":"boolean","default":0}', "Invalid default"),
        (RECORD % '{"name":"f","type":"int","default":true}', "Invalid default"),
        (RECORD % '{"name":"f","type":["int","string"],"default":null}', "Invalid default"),
        (RECORD % '{"name":"f","type":{"type":"array","items":"int"},"default":[1,"2"]}', "Invalid default"),
        (RECORD % '{"name":"f","type":"double","default":"1_0"}', "Invalid default"),
        (RECORD % '{"name":"f","type":"double","default":1e999}', "too large"),
        (RECORD % '{"name":"f","type":"int","aliases":"g"}', "aliases not an array"),
        (RECORD % '{"name":"f","type":"int","aliases":[1]}', "alias not a string"),
        (RECORD % '{"name":"f","type":{"type":"fixed","name":"R","size":1}}', "redefine"),
        ('["int","int"]', "Duplicate in union"),
        ('["int",["string"]]', "Nested union"),
        ('{"type":"enum","name":"E"}', "no symbols"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "Duplicate enum symbol"),
        ('{"type":"enum","name":"E","symbols":["a-b"]}', "Invalid name"),
        ('{"type":"enum","name":"E","symbols":[1]}', "no string"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "not in the enum symbol set"),
        ('{"type":"fixed","name":"F"}', "size"),
        ('{"type":"fixed","name":"F","size":-1}', "size"),
        ('{"type":"fixed","name":"F","size":true}', "size"),
        ('{"type":"array"}', "no items"),
        ('{"type":"map"}', "no values"),
        ('{"type":"int","x":NaN}', "NaN"),
        ('{"type":"int","x":"\\ud800"}', "surrogate"),
    ],
)
def test_text_is_refused_with_the_reason_when_it_is_no_schema(text: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        canonical(text)


def test_a_default_that_does_not_fit_is_read_when_the_schema_is_stored_already() -> None:
    text = RECORD % '{"name":"f","type":"int","default":"1"}'
    assert canonical(text, is_new=False) == text


def test_types_of_references_are_written_by_name() -> None:
    enum = '{"type":"enum","name":"n.E","symbols":["A"]}'
    inner = '{"type":"fixed","name":"F","size":1}'
    holder = '{"type":"record","name":"n.H","fields":[{"name":"e","type":"E"},{"name":"i","type":' + inner + "}]}"
    text = '{"type":"record","name":"R","fields":[{"name":"h","type":"n.H"},{"name":"f","type":"n.F"}]}'
    assert canonical(text, enum, holder) == text
    parsed = parse(
        SchemaType.AVRO, text, resolved=[ResolvedReference("e", enum), ResolvedReference("h", holder)], is_new=True
    )
    resolved = json.loads(parsed.formatted("resolved"))
    assert resolved["fields"][0]["type"]["fields"][0]["type"]["symbols"] == ["A"]
    assert parsed.formatted("no such format") == text
    assert parsed.name == "R"
    assert parsed.has_top_level_field("h")
    assert not parsed.has_top_level_field("x")


def test_a_type_may_be_defined_twice_when_it_is_the_same_type() -> None:
    twice = RECORD % '{"name":"a","type":%s},{"name":"b","type":%s}'
    fixed = '{"type":"fixed","name":"F","size":1}'
    assert canonical(twice % (fixed, fixed)) == twice % (fixed, '"F"')
    inner = '{"type":"record","name":"I","fields":[{"name":"i","type":["null","I"]},{"name":"f","type":"F"}]}'
    assert canonical(twice % (fixed, inner)) == twice % (fixed, inner)
    with pytest.raises(InvalidSchemaError, match="redefine: F"):
        canonical(twice % (fixed, fixed.replace("1", "2")))


def test_a_name_may_stand_before_its_definition() -> None:
    early = '{"type":"record","name":"n.R","fields":[{"name":"a","type":["null","E"]},{"name":"b","type":%s}]}'
    enum = '{"type":"enum","name":"E","symbols":["A"]}'
    assert canonical(early % enum) == (
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":["null",' + enum + "]},"
        '{"name":"b","type":"E"}]}'
    )


def test_an_alias_in_the_enclosing_namespace_is_found_by_its_short_name_alone() -> None:
    parsed = canonical('{"type":"record","name":"n.R","fields":[{"name":"f","type":["null","R"]}]}')
    assert parsed == '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":["null","R"]}]}'
