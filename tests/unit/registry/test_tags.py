"""Tags inside schemas: found, added, removed."""

from __future__ import annotations

import json

import pytest

from penstock.registry.model import Rendering, SchemaTags, StoredSchema, TagRequest
from tests.unit.registry.registering import Registry, refused

AVRO = json.dumps(
    {
        "type": "record", "name": "Order", "namespace": "com.example", "confluent:tags": ["CORE"],
        "fields": [
            {"name": "id", "type": "string", "confluent:tags": ["PII", "KEY"]},
            {"name": "lines", "type": ["null", {"type": "array", "items": {
                "type": "record", "name": "Line", "fields": [{"name": "price", "type": "int"}]}}]},
        ],
    }
)  # fmt: skip
JSON = '{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"confluent:tags":["PII"]}}}}}'
PROTOBUF = """syntax = "proto3";
package com.example;
import "confluent/meta.proto";
message Order {
  string id = 1 [(confluent.field_meta) = {tags: ["PII", "KEY"], doc: "words"}];
  Line line = 2;
  message Line {
    int32 price = 1 [(confluent.field_meta).tags = "MONEY"];
  }
}
"""


def tags_of(registry: Registry, stored: StoredSchema, *wanted: str) -> list[tuple[str, tuple[str, ...]]]:
    rendering = Rendering(find_tags=wanted)
    answer = registry.run(registry.service.subjects.version(stored.subject, str(stored.version), rendering=rendering))
    by_id = registry.run(registry.service.schemas.by_id(stored.id, rendering=rendering))
    assert by_id.schema_tags == answer.schema_tags
    return [(each.entity_path, each.tags) for each in answer.schema_tags]


def retag(registry: Registry, path: str, kind: str, add: str = "", remove: str = "") -> StoredSchema:
    request = TagRequest(
        (SchemaTags(path, kind, (add,)),) if add else (), (SchemaTags(path, kind, (remove,)),) if remove else ()
    )
    return registry.run(registry.service.subjects.change_tags("s", "latest", request)).stored


def test_tags_of_avro_records_and_fields_are_found_and_changed(registry: Registry) -> None:
    stored = registry.register("s", AVRO)
    assert tags_of(registry, stored) == []
    assert tags_of(registry, stored, "PII", "OTHER") == [("com.example.Order.id", ("PII",))]
    assert tags_of(registry, stored, "*")[0] == ("com.example.Order", ("CORE",))
    tagged = retag(registry, ".com.example.Line.price", "sr_field", add="MONEY")
    assert tagged.version == 2
    assert tags_of(registry, tagged, "MONEY") == [("com.example.Line.price", ("MONEY",))]
    assert retag(registry, "com.example.Line.price", "sr_field", remove="MONEY").version == 1


def test_tags_of_json_schemas_are_found_and_changed(registry: Registry) -> None:
    stored = registry.register("s", JSON, schema_type="JSON")
    assert tags_of(registry, stored, "*") == [("object.a.object.b", ("PII",))]
    tagged = retag(registry, "object", "sr_record", add="CORE")
    assert tags_of(registry, tagged, "*") == [("object", ("CORE",)), ("object.a.object.b", ("PII",))]
    assert retag(registry, "object", "sr_record", remove="CORE") == stored


def test_tags_of_protobuf_messages_and_fields_are_found_and_changed(registry: Registry) -> None:
    stored = registry.register("s", PROTOBUF, schema_type="PROTOBUF")
    assert tags_of(registry, stored, "PII", "MONEY") == [
        ("com.example.Order.id", ("PII",)), ("com.example.Order.Line.price", ("MONEY",)),
    ]  # fmt: skip
    tagged = retag(registry, "com.example.Order", "sr_record", add="CORE")
    assert tags_of(registry, tagged, "CORE") == [("com.example.Order", ("CORE",))]
    fewer = retag(registry, "com.example.Order.id", "sr_field", remove="PII")
    assert tags_of(registry, fewer, "KEY", "PII") == [("com.example.Order.id", ("KEY",))]
    assert "words" in fewer.content.text


def test_a_protobuf_schema_imports_what_its_first_tag_needs(registry: Registry) -> None:
    registry.register("s", 'syntax = "proto3"; message M { string a = 1; }', schema_type="PROTOBUF")
    tagged = retag(registry, "M.a", "sr_field", add="PII")
    assert 'import "confluent/meta.proto"' in tagged.content.text
    assert tags_of(registry, tagged, "*") == [("M.a", ("PII",))]


@pytest.mark.parametrize("path", ["com.example.Order.nothing", "com.example.Order", ""])
def test_a_tag_for_what_is_not_there_is_refused(registry: Registry, path: str) -> None:
    registry.register("s", AVRO)
    with refused(42201):
        retag(registry, path, "sr_field", add="PII")
    with refused(40401):
        registry.run(registry.service.subjects.change_tags("t", "1", TagRequest()))


def test_tags_are_added_in_a_registration(registry: Registry) -> None:
    stored = registry.register("s", AVRO, tags_to_add=(SchemaTags("com.example.Line", "sr_record", ("LINE",)),))
    assert tags_of(registry, stored, "LINE") == [("com.example.Line", ("LINE",))]
