"""A task's copy of a global table: the latest value of every key of a topic, in the memory of a Python worker.

A worker reads the topic once and then only what is new, when its copy is older than the table allows. Keys are decoded,
because the same key may be written in several ways; values stay bytes until a join needs them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.resource_cache import ResourceCache
from penstock.client.retries import Retrying, RetryPolicy
from penstock.core.types import TopicPartition
from penstock.pipelines.payloads.decoding import Decoded, PayloadDecoder, in_pieces, open_decoder
from penstock.pipelines.payloads.formats import PayloadFormat
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.streams.topology.errors import StreamsError

if TYPE_CHECKING:
    from penstock.pipelines.kafka.offsets_json import Offsets
    from penstock.pipelines.source.cluster import SourceCluster
    from penstock.pipelines.source.read_options import FetchOptions

# Each worker has a copy, and there is a worker for each core: more than that would be felt on machines of today.
MOST_BYTES = 512 << 20
# Python's cost of an entry besides the bytes of its key and value: two objects and a place in a dict.
_ENTRY_BYTES = 200
# An application joins a handful of global tables.
_MOST_COPIES = 8
# A partition that moves, or whose broker starts, is known again after seconds.
_PATIENCE_S, _PAUSE_S = 30.0, 0.1


@dataclass(frozen=True, slots=True)
class GlobalTopic:
    """The table and its topic, in a form that travels to tasks."""

    topic: str
    key: PayloadFormat
    is_key_bare: bool  # JSON that is a value, not an object: `key` is of an object that has it as its only field
    refresh_ms: int
    skips_bad_keys: bool
    settings: tuple[tuple[str, str], ...] = field(repr=False)  # librdkafka's, passwords included
    is_direct: bool = True


class TopicReading(Protocol):
    """The calls of a copy to a cluster."""

    def ranges(self) -> tuple[str, Collection[OffsetRange]]:
        """The topic's id, and what each partition holds now, up to the end of what is committed."""
        ...

    def read(self, part: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Records with `key`, `value`, `offset`."""
        ...

    def close(self) -> None: ...


class GlobalCopy:
    def __init__(
        self,
        table: GlobalTopic,
        reading: TopicReading,
        *,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._reading = reading
        self._most_bytes = most_bytes
        self._clock = clock
        self._decoder: PayloadDecoder = open_decoder(table.key, is_key=True)
        self._refreshed_at: float | None = None
        self._topic_id = ""
        self._positions: dict[TopicPartition, int] = {}
        self._values: dict[Hashable, bytes] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._values)

    def find(self, keys: list[Any]) -> list[bytes | None]:
        """The bytes of the values; None where the table has no such key."""
        now = self._clock()
        if self._refreshed_at is None or (now - self._refreshed_at) * 1000 >= self._table.refresh_ms:
            self._refresh()
            self._refreshed_at = now
        values = self._values
        return [None if key is None else values.get(hashable(key)) for key in keys]

    def close(self) -> None:
        self._reading.close()

    def _refresh(self) -> None:
        topic_id, held = self._reading.ranges()
        if topic_id != self._topic_id:  # the first time, or the topic was made anew
            self._topic_id, self._positions, self.size = topic_id, {}, 0
            self._values.clear()
        for part in sorted(held):
            start = max(part.start, self._positions.get(part.partition, part.start))
            if start < part.end:
                for rows in self._reading.read(part._replace(start=start)):
                    self._take(part.partition, rows)
            self._positions[part.partition] = max(start, part.end)

    def _take(self, partition: TopicPartition, rows: pa.RecordBatch) -> None:
        payloads, values, offsets = (rows.column(name) for name in ("key", "value", "offset"))
        keys, errors = self._decoded(payloads)
        for payload, key, error, value, offset in zip(
            payloads.to_pylist(), keys, errors, values.to_pylist(), offsets.to_pylist(), strict=True
        ):
            if error is not None and not self._table.skips_bad_keys:
                raise StreamsError(f"a record of a global table was refused: {error} ({partition}, offset {offset})")
            if key is not None:
                self._put(hashable(key), len(payload), value)
        if self.size > self._most_bytes:
            raise StreamsError(
                f"the global table of topic {self._table.topic} has more than {self._most_bytes >> 20:,} MiB, which"
                " every worker would have to keep",
                "Use app.table() instead: its rows are shared among the tasks.",
            )

    def _put(self, key: Hashable, key_bytes: int, value: bytes | None) -> None:
        before = self._values.pop(key, None)
        if before is not None:
            self.size -= key_bytes + len(before) + _ENTRY_BYTES
        if value is not None:
            self._values[key] = value
            self.size += key_bytes + len(value) + _ENTRY_BYTES

    def _decoded(self, payloads: pa.Array) -> tuple[list[Any], list[str | None]]:
        if self._table.is_key_bare:
            payloads = pc.binary_join_element_wise(
                pa.scalar(b'{"key":'), payloads.cast(pa.binary()), pa.scalar(b"}"), pa.scalar(b"")
            )
        keys: list[Any] = []
        errors: list[str | None] = []

        def decode_some(start: int, end: int) -> Decoded:
            return self._decoder.decode(payloads.slice(start, end - start))

        for decoded in in_pieces(len(payloads), decode_some):
            keys += decoded.values.to_pylist(maps_as_pydicts="strict")
            errors += decoded.errors.to_pylist()
        if self._table.is_key_bare:
            keys = [None if key is None else key["key"] for key in keys]
        return keys, errors


def hashable(key: Any) -> Hashable:
    """Equal for keys that are equal, whatever they are made of."""
    if isinstance(key, Mapping):
        return tuple((name, hashable(value)) for name, value in sorted(key.items()))
    if isinstance(key, list | tuple):
        return tuple(hashable(each) for each in key)
    return key  # type: ignore[no-any-return]


class ClusterReading:
    """By the client of pipelines, committed records only."""

    def __init__(self, table: GlobalTopic) -> None:
        self._table = table
        self._cluster: SourceCluster | None = None

    def ranges(self) -> tuple[str, Collection[OffsetRange]]:
        from penstock.pipelines.source.cluster import SourceCluster
        from penstock.pipelines.source.complete import ask_for_all
        from penstock.pipelines.source.read_options import TopicSubscription

        topic = self._table.topic
        if self._cluster is None:
            self._cluster = SourceCluster(dict(self._table.settings), is_read_committed=True)
        cluster = self._cluster
        found = cluster.find_partitions(TopicSubscription(topics=frozenset({topic})))
        if found.missing:
            raise StreamsError(f"there is no topic {topic}, which is a global table", "Make the topic first.")
        partitions = found.partitions

        def of_all(ask: Callable[[], Offsets]) -> Offsets:
            return ask_for_all(partitions, ask, Retrying(RetryPolicy(_PATIENCE_S, _PAUSE_S, _PAUSE_S)))

        first = of_all(lambda: cluster.earliest(partitions))
        end = of_all(lambda: cluster.latest(partitions))
        held = [OffsetRange(each, min(first[each], end[each]), end[each]) for each in partitions]
        return found.topic_ids[topic], held

    def read(self, part: OffsetRange) -> Iterator[pa.RecordBatch]:
        from penstock.pipelines.source.tasks import read_range

        return read_range(part, self._options())

    def _options(self) -> FetchOptions:
        from penstock.pipelines.source.read_options import FetchOptions

        # Records that retention has deleted since the read of the offsets are no loss: the table has forgotten them.
        return FetchOptions(
            dict(self._table.settings), self._table.is_direct, is_read_committed=True, fail_on_data_loss=False
        )

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


class _OfThread(threading.local):
    """A worker process has one thread. In a process with several, each has copies of its own."""

    def __init__(self) -> None:
        self.copies: ResourceCache[GlobalTopic, GlobalCopy] = ResourceCache(_MOST_COPIES, GlobalCopy.close)


_kept = _OfThread()


def copy_of(table: GlobalTopic) -> GlobalCopy:
    """The worker's own, opened when it is first needed."""
    return _kept.copies.get(table, lambda: GlobalCopy(table, ClusterReading(table)))
