"""Decodes the same payloads by columns and record by record, in alternating rounds.

What is counted is the processor's time of this process: one thread decodes, as in a task of Spark.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from bench.contenders import PENSTOCK
from bench.decoding.payloads import ORDERS, SCHEMA_ID, AvroOrders, Orders, orders
from bench.gathering import Gathering
from bench.loads import Figures
from bench.rows import Row
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.decoding import ColumnDecoder, decode_batch
from penstock.serdes.columns.open_columns import open_columns

DECODING_NAMES = ("decoding",)
BEGIN, END = "<!-- decoding: begin -->", "<!-- decoding: end -->"
RECORD_BY_RECORD = "record by record"
RECORDS, QUICK_RECORDS = 200_000, 20_000
# The goal is against fastavro in all rows of Avro and of Protobuf: it is the usual reader of such topics.
DECODING_ROWS = (
    Row("avro", "Avro, six fields; beside: fastavro", "1,000/s", ratio_at_least=5),
    Row("avro-two", "Avro, two fields of six; beside: fastavro", "1,000/s", ratio_at_least=5),
    Row("avro-one", "Avro, the first field of six; beside: fastavro", "1,000/s", ratio_at_least=5),
    Row("protobuf", "Protobuf, six fields; beside: fastavro with Avro", "1,000/s", ratio_at_least=5),
    Row("protobuf-one", "Protobuf, the first field of six; beside: fastavro with Avro", "1,000/s", ratio_at_least=5),
    Row("protobuf-runtime", "Protobuf, six fields; beside: protobuf's runtime", "1,000/s"),
    Row("json", "JSON, six fields; beside: msgspec", "1,000/s"),
    Row("json-one", "JSON, the first field of six; beside: msgspec", "1,000/s"),
)
_SOME = {"": None, "-two": frozenset({"amount", "state"}), "-one": frozenset({"id"})}


class DecodingRun:
    """Figures gather in `result`."""

    def __init__(self, count: int, rounds: int) -> None:
        self.rounds = rounds
        self.count = count
        contenders = (PENSTOCK.name, RECORD_BY_RECORD)
        self.result = Gathering(contenders, DECODING_ROWS, "Decoding", (BEGIN, END), RECORD_BY_RECORD)

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        rows = orders(self.count)
        formats: list[Orders] = [each() for each in ORDERS]
        payloads = [pa.array([each.written(row) for row in rows], pa.binary()) for each in formats]
        # The garbage collector is not to look at what only the bench keeps.
        del rows
        gc.collect()
        gc.freeze()
        for number in range(self.rounds):
            ours: Figures = {}
            theirs: Figures = {}
            for each, batch in zip(formats, payloads, strict=True):
                ours |= self._by_columns(each, batch)
                theirs[each.schema_type.lower()] = self._rate(partial(each.read_singly, batch))
            self.result.keep(PENSTOCK.name, ours, number)
            self.result.keep(RECORD_BY_RECORD, _beside(theirs), number)

    def _by_columns(self, each: Orders, batch: pa.Array) -> Figures:
        figures: Figures = {}
        for suffix, fields in _SOME.items():
            decoder = open_columns(each.schema, None, fields)
            figures[each.schema_type.lower() + suffix] = self._rate(partial(_decode, batch, decoder))
        if each.schema_type is SchemaType.PROTOBUF:
            figures["protobuf-runtime"] = figures["protobuf"]
        return figures

    def _rate(self, decode: Callable[[], pa.Array]) -> float:
        begun = time.process_time()
        decoded = decode()
        taken = time.process_time() - begun
        assert len(decoded) == self.count
        return self.count / taken / 1000


def _decode(batch: pa.Array, decoder: ColumnDecoder) -> pa.Array:
    columns = decode_batch(batch, {SCHEMA_ID: decoder}, decoder.type)
    assert columns.errors.null_count == len(batch)
    return columns.values


def _beside(theirs: Figures) -> Figures:
    """What each row is compared with."""
    fastavro = theirs[AvroOrders.schema_type.lower()]
    keys = [row.key for row in DECODING_ROWS]
    figures = {key: fastavro for key in keys if key.startswith(("avro", "protobuf"))}
    figures["protobuf-runtime"] = theirs["protobuf"]
    return figures | {key: theirs["json"] for key in keys if key.startswith("json")}
