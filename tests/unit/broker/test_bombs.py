"""Batches that claim to be 2 GiB when decompressed (CVE-2023-34455), wherever the broker opens what a client sent."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from pathlib import Path

import pytest

from penstock.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, compute_crc
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, build_batch, iterate_outlines, iterate_records, open_batch
from tests.unit.broker.served import serving

CLAIM = b"\xff\xff\xff\xff\x07" + b"\0abc"
FRAMED = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(CLAIM)) + CLAIM
MOST_BYTES = 3_000_000


def bomb(payload: bytes) -> bytes:
    """A batch that is in order, but for what its records claim to be."""
    batch = bytearray(build_batch([Record(b"k", b"v", (), 1)], codec=Codec.SNAPPY)[:HEADER_SIZE] + payload)
    struct.pack_into(">i", batch, 8, len(batch) - LOG_OVERHEAD)
    struct.pack_into(">I", batch, 17, compute_crc(batch, 0, len(batch)))
    return bytes(batch)


BOMBS = [bomb(CLAIM), bomb(FRAMED)]


@pytest.mark.parametrize("batch", BOMBS, ids=["raw", "framed"])
@pytest.mark.parametrize("opening", [open_batch, iterate_records, iterate_outlines])
def test_batch_is_refused_without_memory_when_anything_opens_it(opening: object, batch: bytes) -> None:
    """Validation, conversion, the cleaner, coordinators and searches by time open batches by these."""
    assert callable(opening)
    tracemalloc.start()
    with pytest.raises(ApiError, match="limit"):
        list(opening(batch))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_BYTES


def test_batch_is_refused_and_others_are_written_when_a_client_sends_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            await served.create("compacted", cleanup_policy="compact")
            await served.create("converted", compression_type="gzip")
            good = build_batch([Record(b"k", b"v", (), 1)])

            async def produce(topic: str, records: bytes) -> int:
                data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
                response = await served.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]), 9)
                return int(response.responses[0].partition_responses[0].error_code)

            for topic in ("compacted", "converted"):
                assert await produce(topic, good) == ErrorCode.NONE
                tracemalloc.start()
                for batch in BOMBS:
                    assert await produce(topic, batch) == ErrorCode.CORRUPT_MESSAGE
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak < MOST_BYTES
                assert await produce(topic, good) == ErrorCode.NONE
                partition = served.broker.partitions.find(topic, 0)
                assert partition is not None
                assert partition.log.log_end_offset == 2

    asyncio.run(run())
