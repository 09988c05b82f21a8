"""Payloads that Confluent's serializers write, with a real registry, as tasks of Spark decode them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import penstock
from penstock.pipelines.payloads.decoding import open_decoder
from penstock.pipelines.payloads.formats import RegistryAddress, resolve_format
from penstock.pipelines.source.columns import HEADERS_TYPE

pytest.importorskip("pyspark")

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def test_rows_have_their_values_when_confluent_s_serializers_frame_them_both_ways(
    schema_registry: penstock.Registry,
) -> None:
    client = SchemaRegistryClient(schema_registry.client_config)
    by_prefix = AvroSerializer(client, SCHEMA)
    by_header = AvroSerializer(client, SCHEMA, conf={"schema.id.serializer": header_schema_id_serializer})
    payloads, headers = [], []
    for number, serialize in enumerate((by_prefix, by_header, by_prefix)):
        context = SerializationContext("formats", MessageField.VALUE, headers=[])
        payloads.append(serialize({"id": number}, context))
        headers.append([{"key": key, "value": value} for key, value in list(context.headers or [])])
    assert [len(each) for each in headers] == [0, 1, 0]
    found = resolve_format(RegistryAddress.of({"schema.registry.url": schema_registry.url}), "formats-value")
    decoded = open_decoder(found, is_key=False).decode(pa.array(payloads, pa.binary()), pa.array(headers, HEADERS_TYPE))
    assert decoded.errors.to_pylist() == [None] * 3
    assert decoded.values.to_pylist() == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert decoded.schemas[0].as_py() == decoded.schemas[2].as_py()
