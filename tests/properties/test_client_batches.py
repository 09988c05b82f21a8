"""The quick ways from records to bytes and back that clients use do what the careful ones do."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.batches.batch_builder import NewRecord, Sequenced, finish_batch, prepare_batch
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError
from penstock.protocol.record_reading import read_records
from penstock.protocol.records import Record, build_batch, iterate_records, open_batch

NOW = 1_700_000_000_000
BYTES = st.none() | st.binary(max_size=80) | st.integers(8_000, 20_000).map(bytes)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        key=BYTES,
        value=BYTES,
        headers=st.lists(st.tuples(st.text(max_size=8), BYTES), max_size=3).map(tuple),
        timestamp_ms=st.none() | st.integers(-1, 2**62),
    ),
    min_size=1,
    max_size=12,
)


def carefully(records: list[NewRecord]) -> list[Record]:
    return [
        Record(key, value, headers, NOW if time is None else time, offset)
        for offset, (key, value, headers, time) in enumerate(records)
    ]


@given(records=RECORDS, codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4]), sequence=st.integers(0, 2**31 - 1))
def test_batch_is_the_same_when_it_is_built_by_the_client(
    records: list[NewRecord], codec: Codec, sequence: int
) -> None:
    built = finish_batch(prepare_batch(records, NOW, codec), Sequenced(7, 3, sequence), is_transactional=True)
    expected = build_batch(
        carefully(records),
        codec=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=sequence,
        is_transactional=True,
    )
    assert built == expected


def test_offsets_within_a_batch_are_right_when_it_is_longer_than_the_table_of_numbers() -> None:
    records = [NewRecord(value=b"v")] * 9_000
    assert finish_batch(prepare_batch(records, NOW), Sequenced()) == build_batch(carefully(records))


@given(records=RECORDS, append_time=st.none() | st.integers(0, 2**62), offset=st.integers(0, 2**62))
def test_records_are_the_same_when_the_client_reads_them(
    records: list[NewRecord], append_time: int | None, offset: int
) -> None:
    batch = build_batch(carefully(records), base_offset=offset, log_append_time_ms=append_time)
    expected = [
        (record.offset, record.timestamp, record.key, record.value, record.headers) for record in iterate_records(batch)
    ]
    assert read_records(*open_batch(batch)) == expected


@given(records=RECORDS, data=st.data())
def test_only_an_api_error_comes_out_when_records_are_damaged(records: list[NewRecord], data: st.DataObject) -> None:
    batch = bytearray(build_batch(carefully(records)))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = list(iterate_records(batch))
    except ApiError:
        expected = None
    with contextlib.suppress(ApiError):
        found = read_records(read_header(batch), bytes(batch[HEADER_SIZE:]))
        assert expected is not None
        assert [row[0] for row in found] == [record.offset for record in expected]
