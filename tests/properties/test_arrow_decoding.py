"""The Arrow decoder against the two that are known to be right: our own record decoder, and librdkafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import confluent_kafka
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.batches.fetched_batches import Section, find_batches, open_sections
from penstock.core.types import TopicPartition
from penstock.embedded import Broker
from penstock.pipelines.source.brokers import brokers_of
from penstock.pipelines.source.decoding import Parts, decode_sections
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.source.read_options import FetchOptions
from penstock.pipelines.source.tasks import read_range
from penstock.protocol import batch as batches
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError
from penstock.protocol.records import Record, build_batch, iterate_records
from tests.shared_brokers import SHARED_BROKER

TIMES = st.integers(-1, 2**41)
PAST = 1_700_000_000_000  # a broker refuses times that are too far in the future
FIELDS = st.none() | st.binary(max_size=300) | st.sampled_from([b"", b"x" * 9000])
HEADERS = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=40)), max_size=3)
RECORDS = st.lists(
    st.builds(Record, FIELDS, FIELDS, HEADERS.map(tuple), TIMES),
    min_size=1,
    max_size=12,
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches one after another, with gaps between them as compaction leaves."""
    data = bytearray()
    offset = draw(st.integers(0, 2**40))
    for records in draw(st.lists(RECORDS, min_size=1, max_size=4)):
        stamp = draw(st.none() | st.integers(0, 2**41))
        codec = draw(st.sampled_from(Codec))
        batch = build_batch(records, base_offset=offset, codec=codec, log_append_time_ms=stamp)
        offset = batches.read_header(batch).next_offset + draw(st.integers(0, 3))
        data += batch
    return bytes(data)


def decode_plainly(data: bytes, start: int, end: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for position, header in batches.iterate_batches(data):
        for record in iterate_records(memoryview(data)[position : position + header.size]):
            if start <= record.offset < end:
                headers = [{"key": key, "value": value} for key, value in record.headers]
                rows.append(
                    {
                        "key": record.key,
                        "value": record.value,
                        "topic": "t",
                        "partition": 3,
                        "offset": record.offset,
                        "timestamp": record.timestamp * 1000,
                        "timestampType": int(header.is_log_append_time),
                        "headers": headers or None,
                    }
                )
    return rows


def to_rows(decoded: pa.RecordBatch) -> list[dict[str, object]]:
    plain = decoded.set_column(5, "timestamp", decoded.column("timestamp").view(pa.int64()))
    rows: list[dict[str, object]] = plain.to_pylist()
    return rows


@given(logs(), st.data())
def test_arrow_rows_equal_the_plain_decoder_when_batches_are_arbitrary(data: bytes, draw: st.DataObject) -> None:
    found = find_batches(data)
    first, after = found[0].header.base_offset, found[-1].header.next_offset
    start = draw.draw(st.integers(first, after))
    end = draw.draw(st.integers(start, after))
    sections = list(open_sections(data, found, None, start, end))
    decoded = decode_sections("t", 3, sections, start, end, Parts(headers=True))
    decoded.validate(full=True)
    assert to_rows(decoded) == decode_plainly(data, start, end)
    without = decode_sections("t", 3, sections, start, end)
    assert without.equals(decoded.drop_columns(["headers"]))


@given(logs(), st.integers(0, 10_000))
def test_whole_batches_are_found_when_the_answer_is_cut_off(data: bytes, size: int) -> None:
    cut = data[:size]
    found = find_batches(cut)
    whole = [header for position, header in batches.iterate_batches(data) if position + header.size <= len(cut)]
    assert [header for _, header in found] == whole


@given(RECORDS, st.data())
def test_damage_is_told_or_harmless_when_bytes_are_changed(records: list[Record], draw: st.DataObject) -> None:
    """The CRC is right: whoever produced this lied. Nothing is read outside the data."""
    batch = build_batch(records)
    body = bytearray(batch[batches.HEADER_SIZE :])
    for position in draw.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        body[position] = draw.draw(st.integers(0, 255))
    header = batches.read_header(batch)
    try:
        decoded = decode_sections("t", 0, [Section(header, bytes(body))], -(2**62), 2**62, Parts(headers=True))
    except ApiError:
        return
    decoded.validate(full=True)
    assert decoded.num_rows == len(records)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("data"), config=SHARED_BROKER) as running:
        yield running


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@settings(max_examples=3)
@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_both_fetchers_return_what_was_produced_when_librdkafka_wrote_it(
    broker: Broker, codec: str, produced: list[list[Record]]
) -> None:
    topic = f"decode-{uuid.uuid4()}"
    failures: list[str] = []

    def note(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            failures.append(error.str())

    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec})
    for records in produced:
        for record in records:
            headers: list[tuple[str, str | bytes | None]] = list(record.headers)
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp=min(max(record.timestamp, 1), PAST),
                headers=headers,
                on_delivery=note,
            )
        producer.flush()
    assert not failures
    flat = [record for records in produced for record in records]
    whole = OffsetRange(TopicPartition(topic, 0), 0, len(flat))
    client = {"bootstrap.servers": broker.bootstrap_servers}
    direct, slow = (
        pa.Table.from_batches(read_range(whole, FetchOptions(client, is_direct=is_direct, include_headers=True)))
        for is_direct in (True, False)
    )
    brokers_of(client, "penstock-spark").close()
    assert direct.combine_chunks().equals(slow.combine_chunks())
    assert direct.column("key").to_pylist() == [record.key for record in flat]
    assert direct.column("value").to_pylist() == [record.value for record in flat]
