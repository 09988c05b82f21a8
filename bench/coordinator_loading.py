"""Prints how fast a coordinator loads a partition of `__consumer_offsets`, by what is in it.

`python -m bench.coordinator_loading`. No broker runs: the bytes of a log are read and replayed in this process, in the
steps in which a broker's loop does it. Seconds are those of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.coordinators.latest_records import LatestRecords
from penstock.groups.records.consumer_offsets import CommittedOffset, encode_offset
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.protocol.records import CONTROL_COMMIT, EndMarker, Record, build_batch, build_end_marker

COMMITS = 46_950
ROUNDS = 5
_GROUPS = 20
_TOPIC = "some.topic.of.orders"


def _records(group: int, first: int, count: int, number: int) -> list[Record]:
    """A commit of `count` offsets."""
    committed = CommittedOffset(number, 3, "", 1_794_958_297_000 + number)
    written = (encode_offset(f"bench-group-{group:05d}", _TOPIC, first + index, committed) for index in range(count))
    return [Record(key, value, timestamp=committed.commit_timestamp_ms) for key, value in written]


def plain(count: int) -> bytes:
    return b"".join(
        build_batch(_records(number % _GROUPS, 0, count, number), base_offset=number * count)
        for number in range(COMMITS)
    )


def transactional(count: int) -> bytes:
    """Each commit has its marker."""
    parts = []
    for number in range(COMMITS // 2):
        producer_id, base_offset = 7_000 + number % _GROUPS, number * (count + 1)
        parts += [
            build_batch(
                _records(number % _GROUPS, 0, count, number),
                base_offset=base_offset,
                producer_id=producer_id,
                producer_epoch=3,
                base_sequence=0,
                is_transactional=True,
            ),
            build_end_marker(
                EndMarker(CONTROL_COMMIT, 5),
                producer_id=producer_id,
                producer_epoch=3,
                timestamp=1_794_958_297_000,
                base_offset=base_offset + count,
            ),
        ]
    return b"".join(parts)


def compacted() -> bytes:
    """Nothing to leave out: each record has a key of its own."""
    return b"".join(
        build_batch(_records(number // 6, number % 6, 1, number), base_offset=number) for number in range(COMMITS)
    )


CASES: tuple[tuple[str, Callable[[], bytes]], ...] = (
    ("commits of 1 offset", lambda: plain(1)),
    ("commits of 3 offsets", lambda: plain(3)),
    ("commits of 3 offsets in transactions, with their markers", lambda: transactional(3)),
    ("46,950 offsets, committed once", compacted),
)


def load(data: bytes) -> float:
    """Processor seconds."""
    started = time.process_time()
    records, shard = LatestRecords(), GroupShard(0, GroupSettings())
    for _ in records.take(data, 0):
        time.perf_counter()  # as the loop does after each step
    for key, value, offset, producer_id in records:
        shard.replay(key, value, offset, producer_id)
        time.perf_counter()
    return time.process_time() - started


def main() -> None:
    for name, make in CASES:
        data = make()
        seconds = min(load(data) for _ in range(ROUNDS))
        megabytes = len(data) / 1e6
        print(f"{name}: {megabytes:.1f} MB in {seconds * 1000:.0f} ms, {megabytes / seconds:.0f} MB/s")


if __name__ == "__main__":
    main()
