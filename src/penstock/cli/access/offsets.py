"""Offsets of partitions: how a user names a place in a log, and asking the brokers where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.times import parse_time_ms
from penstock.core.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Edge = Literal["earliest", "latest", "max-timestamp"]
Place = Edge | int  # an edge of the log, or the first record at or after a time in ms

# kafka-get-offsets writes the edges as numbers too.
_EDGES: dict[str, Edge] = {
    "earliest": "earliest", "beginning": "earliest", "-2": "earliest",
    "latest": "latest", "end": "latest", "-1": "latest",
    "max-timestamp": "max-timestamp", "-3": "max-timestamp",
}  # fmt: skip


class FoundOffset(NamedTuple):
    offset: int  # -1: no such record
    timestamp: int  # -1: not asked by time


def parse_place(text: str, now_ms: int) -> Place:
    return _EDGES.get(text) or parse_time_ms(text, now_ms)


def parse_partition_offsets(texts: Iterable[str]) -> dict[int, int]:
    """`0:100` or `0:end`, comma-separated or repeated; -1 is the high watermark, as DeleteRecords has it."""
    offsets: dict[int, int] = {}
    for part in (part for text in texts for part in text.split(",")):
        partition, colon, offset = part.partition(":")
        if offset in ("end", "latest"):
            offset = "-1"
        if not colon or not partition.isdigit() or not (offset.isdigit() or offset == "-1"):
            raise UsageError(f"{part!r} is not PARTITION:OFFSET", "Write it like 0:1500 or 0:end.")
        offsets[int(partition)] = int(offset)
    return offsets


def find_offsets(
    admin: AdminClient, places: Mapping[TopicPartition, Place], *, committed_only: bool = False
) -> dict[TopicPartition, FoundOffset]:
    from confluent_kafka import IsolationLevel
    from confluent_kafka import TopicPartition as ClientPartition

    from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, raise_failures, wait_each

    if not places:
        return {}
    isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
    request: Any = {ClientPartition(key.topic, key.partition): _spec(place) for key, place in places.items()}
    futures = admin.list_offsets(request, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_SECONDS)
    results, failures = wait_each(
        {TopicPartition(partition.topic, partition.partition): future for partition, future in futures.items()}
    )
    raise_failures(failures.values())
    return {key: FoundOffset(result.offset, result.timestamp) for key, result in results.items()}


def find_range(admin: AdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, range]:
    """First and next offset of each partition."""
    wanted = list(partitions)
    starts = find_offsets(admin, dict.fromkeys(wanted, "earliest"))
    ends = find_offsets(admin, dict.fromkeys(wanted, "latest"))
    return {key: range(starts[key].offset, ends[key].offset) for key in wanted}


def _spec(place: Place) -> Any:
    from penstock.cli.access.admin_types import OffsetSpec

    if isinstance(place, int):
        return OffsetSpec.for_timestamp(place)
    untyped: Any = OffsetSpec
    edges = {"earliest": untyped.earliest, "latest": untyped.latest, "max-timestamp": untyped.max_timestamp}
    return edges[place]()
