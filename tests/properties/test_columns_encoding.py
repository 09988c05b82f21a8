"""What columns are written as is read back by other libraries as the same values, and by our columns as the same columns."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.serdes.columns.avro.decoder import AvroColumns
from penstock.serdes.columns.decoding import decode_batch
from penstock.serdes.columns.encoding.avro.encoder import AvroEncoding
from penstock.serdes.framing import prefix
from tests.properties import test_schemas_avro
from tests.properties.test_columns import Plain, _same, avro
from tests.properties.test_serdes import AvroValues, compiled

_QUICK = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@given(schema=test_schemas_avro.schemas(), data=st.data())
@_QUICK
def test_avro_is_read_by_another_library_when_columns_were_encoded(schema: Any, data: st.DataObject) -> None:
    codec, decoder = compiled(json.dumps(schema)), AvroColumns(avro(schema))
    drawn = AvroValues(data.draw, schema)
    payloads = [codec.encode(drawn.value(schema)[0], None) for _ in range(data.draw(st.integers(1, 5)))]
    values = decode_batch(framed(payloads), {1: decoder}, decoder.type).values
    begin = data.draw(st.integers(0, len(payloads) - 1))
    encoded = AvroEncoding(avro(schema)).encode(values.slice(begin))
    encoded.payloads.validate(full=True)
    assert encoded.errors == {}
    again = decode_batch(framed(encoded.payloads.to_pylist()), {1: decoder}, decoder.type)
    assert repr(again.values.to_pylist()) == repr(values.slice(begin).to_pylist())
    plain = Plain(schema)
    for payload, value in zip(encoded.payloads.to_pylist(), values.slice(begin).to_pylist(), strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema), None)
        assert _same(plain.of(schema, value), read)


def framed(payloads: list[bytes]) -> pa.Array:
    return pa.array([prefix(1) + each for each in payloads], pa.binary())
