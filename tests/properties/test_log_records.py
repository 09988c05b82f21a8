"""Records, codecs and indexes survive the way to bytes and back; nonsense is refused and never crashes."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.storage.indexes import OffsetIndex, TimeIndex
from penstock.protocol import batch as batches
from penstock.protocol.compression import Codec, compress, decompress
from penstock.protocol.errors import ApiError
from penstock.protocol.records import (
    Record,
    build_batch,
    decode_varint,
    encode_varint,
    iterate_outlines,
    iterate_records,
)

OPTIONAL_BYTES = st.none() | st.binary(max_size=60)
RECORDS = st.lists(
    st.builds(
        Record,
        key=OPTIONAL_BYTES,
        value=OPTIONAL_BYTES,
        headers=st.lists(st.tuples(st.text(max_size=8), OPTIONAL_BYTES), max_size=3).map(tuple),
        timestamp=st.integers(-1, 2**62),
    ),
    min_size=1,
    max_size=20,
)


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_a_number_comes_back_when_encoded_as_varint(value: int) -> None:
    data = encode_varint(value)
    assert len(data) <= 10
    assert decode_varint(data, 0, len(data)) == (value, len(data))


@given(records=RECORDS, codec=st.sampled_from(Codec), base_offset=st.integers(0, 2**62))
def test_records_come_back_when_built_into_a_batch(records: list[Record], codec: Codec, base_offset: int) -> None:
    data = build_batch(records, codec=codec, base_offset=base_offset)
    header = batches.read_header(data)
    assert batches.is_crc_valid(data, 0, header)
    assert header.last_offset == base_offset + len(records) - 1
    expected = [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
    assert list(iterate_records(data)) == expected
    outlines = list(iterate_outlines(data))
    assert [header.base_timestamp + outline.timestamp_delta for outline in outlines] == [
        record.timestamp for record in records
    ]
    assert [outline.has_key for outline in outlines] == [record.key is not None for record in records]


@given(records=RECORDS, codec=st.sampled_from(Codec), data=st.data())
def test_only_an_api_error_comes_out_when_a_batch_is_damaged(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    damaged = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = damaged[: data.draw(st.integers(0, len(damaged)))]
    for nonsense in (damaged, cut):
        for read in (iterate_records, iterate_outlines):
            with contextlib.suppress(ApiError):
                list(read(nonsense, 10**6))


@given(section=st.binary(max_size=200), count=st.integers(-5, 2**31 - 1), codec=st.integers(0, 7))
def test_only_an_api_error_comes_out_when_records_are_nonsense(section: bytes, count: int, codec: int) -> None:
    header = batches.read_header(build_batch([Record(b"k")]))._replace(record_count=count, attributes=codec)
    data = batches.build(header, section)
    with contextlib.suppress(ApiError):
        list(iterate_records(data, 10**6))


@settings(deadline=None)
@given(data=st.binary(max_size=200).map(lambda seed: seed * 700), codec=st.sampled_from(Codec))
def test_data_comes_back_when_compressed(data: bytes, codec: Codec) -> None:
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), len(data)) == data


@given(
    steps=st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 100_000), st.integers(1, 10**6)), max_size=60),
    base=st.integers(0, 2**40),
)
def test_indexes_come_back_when_written(steps: list[tuple[int, int, int]], base: int) -> None:
    offsets, times = OffsetIndex(base), TimeIndex(base)
    offset, position, timestamp = base, 0, 10**12
    for offset_step, position_step, time_step in steps:
        offset, position, timestamp = offset + offset_step, position + position_step, timestamp + time_step
        offsets.append(offset, position)
        times.append(timestamp, offset)
    assert OffsetIndex.decode(base, offsets.encode(), position + 1).encode() == offsets.encode()
    assert TimeIndex.decode(base, times.encode()).encode() == times.encode()
    assert len(offsets.encode()) == 8 * len(steps)
    assert len(times.encode()) == 12 * len(steps)
