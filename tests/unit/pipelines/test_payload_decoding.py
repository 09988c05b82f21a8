"""Payloads of a registry's schemas, of JSON, of text and of bytes, as tasks decode them."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.client.registry import NewSchema, RegistryClient, RegistryClientError, RegistrySettings
from penstock.pipelines.errors import TableError
from penstock.pipelines.payloads.decoding import Decoded, header_values, in_pieces, open_decoder
from penstock.pipelines.payloads.formats import (
    BYTES,
    TEXT,
    PayloadFormat,
    PayloadKind,
    RegistryAddress,
    json_format,
    resolve_format,
)
from penstock.pipelines.payloads.writers import DecoderFinder, writers_of
from penstock.serdes.errors import TooManyRowsError
from penstock.serdes.framing import prefix
from tests.fake_registry import FakeRegistry, running_registry

pytest.importorskip("pyspark")

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


def address(registry: FakeRegistry) -> RegistryAddress:
    return RegistryAddress.of({"schema.registry.url": registry.url})


def register(registry: FakeRegistry, schema: Any, kind: str = "AVRO", subject: str = "orders-value") -> int:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with RegistryClient(RegistrySettings.of_url(registry.url)) as client:
        found = client.register(subject, NewSchema(text, kind)).id
    assert found is not None
    return found


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decoded(payload_format: PayloadFormat, payloads: list[bytes | None], **options: Any) -> Decoded:
    headers = options.pop("headers", None)
    decoder = open_decoder(pickle.loads(pickle.dumps(payload_format)), is_key=options.pop("is_key", False), **options)
    found = decoder.decode(pa.array(payloads, pa.binary()), headers)
    found.values.validate(full=True)
    assert found.values.type == decoder.type
    assert len(found.values) == len(found.errors) == len(found.schemas) == len(payloads)
    return found


def test_rows_of_several_writers_have_the_readers_columns_when_they_share_a_batch(registry: FakeRegistry) -> None:
    old, new = register(registry, OLD), register(registry, NEW)
    orders = resolve_format(address(registry), "orders-value")
    payloads = [
        prefix(new) + avro(NEW, {"id": 1, "note": "é"}),
        prefix(old) + avro(OLD, {"id": 2}),
        None,
        prefix(99) + b"\0",
        b"no frame",
        prefix(new) + b"\xff",
    ]
    found = decoded(orders, payloads)
    assert found.values.to_pylist() == [{"id": 1, "note": "é"}, {"id": 2, "note": None}, None, None, None, None]
    assert found.schemas.to_pylist() == [str(new), str(old), None, "99", None, str(new)]
    errors = found.errors.to_pylist()
    assert errors[:3] == [None, None, None]
    assert errors[3] == "schema 99 is not known to the registry"
    assert errors[4] == "the payload does not begin with a zero byte and the id of a schema"
    assert errors[5].startswith(f"schema {new}: ")


def test_only_wanted_fields_are_columns_when_fields_are_named(registry: FakeRegistry) -> None:
    old, new = register(registry, OLD), register(registry, NEW)
    orders = resolve_format(address(registry), "orders-value")
    payloads: list[bytes | None] = [prefix(new) + avro(NEW, {"id": 1, "note": "a"}), prefix(old) + avro(OLD, {"id": 2})]
    assert decoded(orders, payloads, fields=frozenset({"note"})).values.to_pylist() == [{"note": "a"}, {"note": None}]
    assert decoded(orders, payloads, fields=frozenset()).values.to_pylist() == [{}, {}]


def test_an_older_version_is_the_reader_when_it_is_asked_for(registry: FakeRegistry) -> None:
    register(registry, OLD)
    new = register(registry, {**OLD, "fields": [*OLD["fields"], {"name": "more", "type": "string"}]})
    orders = resolve_format(address(registry), "orders-value", 1)
    assert orders.type == pa.struct([("id", pa.int32())])
    assert decoded(orders, [prefix(new) + b"\x02\x02a"]).values.to_pylist() == [{"id": 1}]


def test_the_schema_is_that_of_the_header_when_the_record_has_one(registry: FakeRegistry) -> None:
    old, new = register(registry, OLD), register(registry, NEW)
    guid = uuid.UUID(registry.subjects["orders-value"][1]["guid"])
    bare = avro(OLD, {"id": 5})
    rows = [
        [{"key": "other", "value": b"x"}, {"key": "__value_schema_id", "value": b"\x01" + guid.bytes}],
        [{"key": "__value_schema_id", "value": b"\x00" + old.to_bytes(4)}],
        [{"key": "__key_schema_id", "value": b"\x01" + guid.bytes}],
        None,
        [{"key": "__value_schema_id", "value": b"\x01" + b"\0" * 16}],
        [{"key": "__value_schema_id", "value": b"?"}],
    ]
    framed = prefix(new) + avro(NEW, {"id": 6, "note": None})
    orders = resolve_format(address(registry), "orders-value")
    found = decoded(orders, [bare, bare, framed, framed, bare, bare], headers=pa.array(rows, HEADERS))
    assert [each and each["id"] for each in found.values.to_pylist()] == [5, 5, 6, 6, None, None]
    assert found.schemas.to_pylist() == [str(guid), str(old), str(new), str(new), str(uuid.UUID(int=0)), None]
    assert "not known to the registry" in found.errors[4].as_py()
    assert "neither a guid nor an id" in found.errors[5].as_py()


def test_a_key_has_its_own_header() -> None:
    rows = [[{"key": "k", "value": b"1"}, {"key": "v", "value": b"2"}, {"key": "k", "value": b"3"}], [], None]
    headers = pa.array([[], *rows], HEADERS).slice(1)
    found = header_values(headers, "k")
    assert found is not None
    assert found.to_pylist() == [b"1", None, None]
    assert header_values(headers, "none") is None


def test_each_row_says_why_when_its_schema_does_not_fit_the_reader(registry: FakeRegistry) -> None:
    other = register(registry, {**OLD, "fields": [{"name": "id", "type": "string"}]})
    of_json = register(registry, {"type": "object", "properties": {"id": {"type": "integer"}}}, "JSON")
    broken = register(registry, "no schema at all")
    register(registry, NEW)
    orders = resolve_format(address(registry), "orders-value")
    found = decoded(orders, [prefix(other) + b"\x02a", prefix(of_json) + b'{"id":1}', prefix(broken) + b"\0"])
    assert found.values.null_count == 3
    errors = found.errors.to_pylist()
    assert "string was written, and the reader's schema has long, at id" in errors[0]
    assert "the schema is of JSON, and the reader's is of AVRO" in errors[1]
    assert f"schema {broken}: the schema cannot be used" in errors[2]


def test_the_task_fails_when_the_registry_is_out_of_reach(registry: FakeRegistry) -> None:
    old = register(registry, OLD)
    register(registry, NEW)
    orders = resolve_format(address(registry), "orders-value")
    registry.failures.extend([503] * 50)
    with pytest.raises(RegistryClientError):
        decoded(orders, [prefix(old) + b"\x02"])
    registry.failures.clear()
    assert decoded(orders, [prefix(old) + b"\x02"]).values.to_pylist() == [{"id": 1, "note": None}]


def test_the_registry_is_asked_once_for_a_schema_and_seldom_when_ids_are_made_up(registry: FakeRegistry) -> None:
    old = register(registry, OLD)
    register(registry, NEW)
    orders = resolve_format(address(registry), "orders-value")
    registry.asked.clear()
    for _ in range(3):
        decoded(orders, [prefix(old) + b"\x02"] * 4)
    assert registry.asked == [f"GET /schemas/ids/{old}"]
    made_up = [prefix(1000 + number) + b"\x02" for number in range(80)]
    for _ in range(2):
        found = decoded(orders, [*made_up, prefix(2000) + b"\x02", prefix(2000) + b"\x02"])
        assert set(found.errors.to_pylist()) == {
            f"schema {key} is not known to the registry" for key in (*range(1000, 1080), 2000)
        }
    assert len(registry.asked) == 1 + 81
    assert registry.asked[1] == "GET /schemas/ids/2000"  # two rows name it


def test_a_row_is_not_called_bad_when_its_schema_was_not_looked_up(registry: FakeRegistry) -> None:
    """After fifty ids that nobody knows, rows of schemas that the registry has were called bad."""
    register(registry, NEW)
    orders = resolve_format(address(registry), "orders-value")
    with DecoderFinder(writers_of(orders, None), clock=itertools.count(step=40).__next__) as finding:
        assert "not known" in str(finding.find(1001))
        assert "not known" in str(finding.find(1002))
        with pytest.raises(TableError, match="2 took 80 s, and schema 1003 was not looked up"):
            finding.find(1003)
        assert "not known" in str(finding.find(1002))


def test_messages_of_older_files_have_the_readers_fields(registry: FakeRegistry) -> None:
    pytest.importorskip("google.protobuf")
    old = register(registry, 'syntax = "proto3"; message Order { int32 id = 1; }', "PROTOBUF")
    new = register(registry, 'syntax = "proto3"; message Order { int32 id = 1; string note = 2; }', "PROTOBUF")
    orders = resolve_format(address(registry), "orders-value")
    found = decoded(orders, [prefix(old) + b"\0\x08\x05", prefix(new) + b"\0\x08\x06\x12\x01a"])
    assert found.errors.null_count == 2
    assert found.values.to_pylist() == [{"id": 5, "note": ""}, {"id": 6, "note": "a"}]
    some = decoded(orders, [prefix(new) + b"\0\x08\x06\x12\x01a"], fields=frozenset({"note"}))
    assert some.values.to_pylist() == [{"note": "a"}]


def test_values_are_the_json_of_their_writer_when_there_is_no_reader(registry: FakeRegistry) -> None:
    first, second = register(registry, NEW), register(registry, '"string"', subject="names-value")
    several = PayloadFormat(PayloadKind.REGISTRY, address(registry))
    found = decoded(several, [prefix(first) + avro(NEW, {"id": 1, "note": "é"}), prefix(second) + b"\x02a", b"\0"])
    assert found.values.to_pylist() == ['{"id":1,"note":{"string":"é"}}', '"a"', None]


def test_a_table_error_says_the_subject_when_the_registry_has_none(registry: FakeRegistry) -> None:
    with pytest.raises(TableError, match="no version latest of the subject missing-value"):
        resolve_format(address(registry), "missing-value")
    register(registry, '{"type": "record"', subject="broken-value")
    with pytest.raises(TableError, match="version 1 of the subject broken-value has no columns"):
        resolve_format(address(registry), "broken-value")


def test_a_login_is_not_shown_when_a_format_is_printed() -> None:
    secret = RegistryAddress.of({"schema.registry.url": "http://localhost", "basic.auth.user.info": "me:secret"})
    assert "secret" not in repr(PayloadFormat(PayloadKind.REGISTRY, secret, "s"))


def test_fields_that_do_not_fit_are_null_and_other_rows_stay_when_json_varies() -> None:
    from pyspark.sql.types import (
        ArrayType,
        DateType,
        DecimalType,
        DoubleType,
        IntegerType,
        LongType,
        StringType,
        StructType,
        TimestampType,
    )

    inner = StructType().add("x", IntegerType()).add("d", DecimalType(5, 2))
    lines = json_format(
        StructType()
        .add("id", LongType())
        .add("name", StringType())
        .add("score", DoubleType())
        .add("inner", inner)
        .add("days", ArrayType(DateType()))
        .add("at", TimestampType())
    )
    payloads: list[bytes | None] = [
        b'{"id": 1, "name": "a", "score": 2, "inner": {"x": 1, "d": 1.1}, "days": ["2024-01-02", 7], "more": 0}',
        b'{"id": "1", "name": {"first": 1}, "score": "x", "inner": {"x": 99999999999, "d": 12345.6}, "days": {}}',
        b'{"id": 2.0, "at": "2024-01-02T03:04:05+01:00"}',
        b'{"id": 123456789012345678901234567890, "name": 123456789012345678901234567890}',
        b"[1]",
        b"{",
        None,
        b"null",
    ]
    found = decoded(lines, payloads)
    rows = found.values.to_pylist()
    assert [str(each) for each in rows[0]["days"]] == ["2024-01-02", "None"]
    assert (rows[0]["id"], rows[0]["score"], rows[0]["inner"]["x"], str(rows[0]["inner"]["d"])) == (1, 2.0, 1, "1.10")
    empty = {"x": None, "d": None}
    assert rows[1] == {"id": None, "name": '{"first":1}', "score": None, "inner": empty, "days": None, "at": None}
    assert rows[2]["id"] == 2
    assert str(rows[2]["at"]) == "2024-01-02 02:04:05+00:00"
    assert (rows[3]["id"], rows[3]["name"]) == (None, "123456789012345678901234567890")
    assert rows[4:] == [None] * 4
    assert found.errors.to_pylist() == [
        *[None] * 4,
        "expected an object, not list",
        "the payload is no JSON",
        None,
        "expected an object, not NoneType",
    ]
    assert decoded(lines, payloads[:1], fields=frozenset({"id"})).values.to_pylist() == [{"id": 1}]


def test_bytes_are_text_or_stay_what_they_are() -> None:
    found = decoded(TEXT, ["é".encode(), b"\xff", None])
    assert found.values.to_pylist() == ["é", None, None]
    assert found.errors.to_pylist() == [None, "the bytes are no UTF-8 text", None]
    assert decoded(BYTES, [b"\xff", None]).values.to_pylist() == [b"\xff", None]


def test_rows_are_decoded_in_halves_when_they_are_too_many_for_one_column() -> None:
    def decode(start: int, end: int) -> list[int]:
        if end - start > 3:
            raise TooManyRowsError
        return list(range(start, end))

    assert list(in_pieces(10, decode)) == [[0, 1], [2, 3, 4], [5, 6], [7, 8, 9]]
    assert list(in_pieces(2, decode)) == [[0, 1]]
