"""Follows the changelogs of an application into its file: finds them, reads them from all their leaders, applies them.

- Changelogs are found by listing topics, every few seconds. One that was made anew (its topic id is another) is read
    anew; one that is gone is dropped.
  - One request waits at each leader for all of its partitions. Only committed records are read (read_committed).
  - A partition whose offsets do not reach back to ours, or not as far, is read anew: its rows are deleted first. So is
    a store that was not followed for so long that deletions may be compacted away (delete.retention.ms).
- One request at a time, of bounded size, is in memory per leader; its records are applied before the next is sent.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

from penstock.admin.state.partitions import NO_LEADER, TopicState
from penstock.client.brokers import Brokers
from penstock.client.partition_fetch import EARLIEST, decode_fetched, offset_of
from penstock.client.retries import SYSTEM_CHANCE
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.time.backoff import Backoff, Pauses
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from penstock.streams.stores.changelogs import Listed, find_changelogs, read_retention
from penstock.streams.stores.followed_store import Followed, store_of, topic_of
from penstock.streams.stores.storage import Applied, ChangelogBatch, Storage

logger = logging.getLogger(__name__)
T = TypeVar("T")

# One answer of a broker; of each partition at most.
_ANSWER_BYTES: Final = 8 * 1024 * 1024
_PARTITION_BYTES: Final = 1024 * 1024
_MOST_BYTES: Final = 2**31 - 1
# Records that are applied in one transaction: some 50 ms.
_TRANSACTION_RECORDS: Final = 5_000
_WAIT_MS: Final = 500
_BACKOFF = Backoff(0.1, 2.0)
# How often the file gets a new time for stores that are still at their ends.
_TOUCH_MS: Final = 60_000


class StorePartition(NamedTuple):
    """A partition of a store that is still the same."""

    store: Followed
    partition: int


class OtherClusterError(Exception):
    """The brokers belong to another cluster than before."""


class ChangelogFollower:
    """`run` is the work of a task. It ends with OtherClusterError and with errors of a file that is broken."""

    def __init__(
        self,
        brokers: Brokers,
        storage: Storage,
        application: str,
        now_ms: Callable[[], int],
        *,
        only: frozenset[str] = frozenset(),
        interval_s: float = 5.0,
    ) -> None:
        """`only`: names of stores; none are all that there are."""
        self.application = application
        self.stores: dict[str, Followed] = {}
        self.records = 0
        self.was_listed = asyncio.Event()  # changelogs were looked for once
        self._brokers = brokers
        self._storage = storage
        self._now_ms = now_ms
        self._only = only
        self._interval_s = interval_s
        self._cluster: str | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="stores")
        self._saved: dict[str, Followed] | None = None
        self._led: dict[int, list[StorePartition]] = {}  # by leader
        self._sizes: dict[StorePartition, int] = {}  # of partitions with batches that are larger than usual
        self._look = asyncio.Event()
        self._log = RateLimitedLog(logger, Limiter(), lambda: int(asyncio.get_running_loop().time() * 1000))

    async def run(self) -> None:
        connections = self._brokers.dedicated()
        tasks: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                self._look.clear()
                try:
                    await self._find()
                except (OSError, ApiError, sqlite3.OperationalError) as error:
                    self._complain("list topics", error)
                for node in self._led:
                    if node not in tasks or tasks[node].done():
                        if node in tasks:
                            tasks[node].result()
                        tasks[node] = asyncio.create_task(self._follow(connections, node), name=f"changelogs of {node}")
                await self._pause(tasks)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            await connections.close()
            await asyncio.to_thread(self._writer.shutdown)

    async def _pause(self, tasks: dict[int, asyncio.Task[None]]) -> None:
        """Returns when it is time to look again, or when a reader has noticed a change."""
        looking = asyncio.create_task(self._look.wait())
        try:
            running = [task for task in tasks.values() if not task.done()]
            await asyncio.wait([looking, *running], timeout=self._interval_s, return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                await asyncio.sleep(_BACKOFF.first_s)
        finally:
            looking.cancel()

    def _complain(self, what: str, error: Exception, **extra: object) -> None:
        fields = {"application": self.application, "what": what, "reason": str(error), **extra}
        self._log.once_per(what, logging.WARNING, "changelogs cannot be followed", fields)

    async def _write(self, work: Callable[..., T], *arguments: Any) -> T:
        """In the thread of the file. Work is done in the order of the calls."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *arguments)

    # ------------------------------------------------------------------------------------ which changelogs there are

    async def _find(self) -> None:
        found = await find_changelogs(self._brokers, self._name)
        if self._cluster not in (None, found.cluster):
            raise OtherClusterError(f"the brokers belong to cluster {found.cluster}, and did to {self._cluster}")
        self._cluster = found.cluster
        if self._saved is None:
            saved = await self._write(self._storage.stores)
            self._saved = {each.name: Followed.of(each, topic_of(self.application, each.name)) for each in saved}
        for name in [*self.stores, *self._saved]:
            if name not in found.changelogs and await self._is_gone(name):
                self.stores.pop(name, None)
                self._saved.pop(name, None)
                await self._write(self._storage.drop, name)
                logger.info("a store is gone", extra={"store": name})
        for name, changelog in found.changelogs.items():
            await self._adopt(name, changelog)
        self._led = self._place(found)
        self.was_listed.set()

    def _name(self, topic: str) -> str | None:
        name = store_of(self.application, topic)
        return name if not self._only or name in self._only else None

    async def _is_gone(self, name: str) -> bool:
        """A broker that has just started may not list all topics, so a request names this one."""
        (topic,) = (await self._brokers.metadata([topic_of(self.application, name)])).topics
        return topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or bool(self._only and name not in self._only)

    async def _adopt(self, name: str, changelog: TopicState) -> None:
        assert self._saved is not None, "read before"
        now_ms = self._now_ms()
        store = self.stores.get(name)
        if store is None:
            store = self._saved.pop(name, None)
            if store is not None:
                store.retention_ms = await read_retention(self._brokers, store.topic)
        if store is not None and (store.topic_id != changelog.topic_id or store.is_outdated(now_ms)):
            reason = "it was not followed for long" if store.topic_id == changelog.topic_id else "it was made anew"
            logger.info("a changelog is read anew", extra={"store": name, "reason": reason})
            store = None
        if store is None:
            self.stores.pop(name, None)  # nothing is applied to it from here on
            saved = await self._write(self._storage.begin, name, changelog.topic_id, now_ms)
            store = Followed.of(saved, topic_of(self.application, name))
            store.retention_ms = await read_retention(self._brokers, store.topic)
        new = {each.partition: 0 for each in changelog.partitions if each.partition not in store.position}
        if new:
            store.started_anew(new, await self._write(self._storage.reset, store.number, new))
        store.partitions = len(changelog.partitions)
        self.stores[name] = store
        if store.at_end_ms - store.saved_at_end_ms > _TOUCH_MS:
            await self._write(self._storage.apply, store.number, [], store.at_end_ms)
            store.saved_at_end_ms = store.at_end_ms

    def _place(self, found: Listed) -> dict[int, list[StorePartition]]:
        led: dict[int, list[StorePartition]] = {}
        for name, changelog in found.changelogs.items():
            for each in changelog.partitions:
                if each.leader != NO_LEADER:
                    led.setdefault(each.leader, []).append(StorePartition(self.stores[name], each.partition))
        self._sizes = {place: size for place, size in self._sizes.items() if self._is_current(place)}
        return led

    def _is_current(self, place: StorePartition) -> bool:
        return self.stores.get(place.store.name) is place.store

    # ------------------------------------------------------------------------------------ what one leader has

    async def _follow(self, connections: Brokers, node: int) -> None:
        """Until the node leads nothing any more."""
        pauses, turn = Pauses(_BACKOFF, SYSTEM_CHANCE), 0
        while places := [place for place in self._led.get(node, ()) if self._is_current(place)]:
            turn += 1
            try:
                # Brokers fill an answer in the order of the request, so each partition is the first in its turn.
                first = turn % len(places)
                is_fine = await self._fetch(connections, node, [*places[first:], *places[:first]])
            except (OSError, ApiError, sqlite3.OperationalError) as error:
                self._complain("fetch", error, broker=node)
                is_fine = False
            if is_fine:
                pauses.reset()
                continue
            self._look.set()
            await asyncio.sleep(pauses.next_s())

    async def _fetch(self, connections: Brokers, node: int, places: list[StorePartition]) -> bool:
        """Whether all of it went well."""
        asked = {
            (place.store.topic, place.partition): (place, place.store.position[place.partition]) for place in places
        }
        by_topic: dict[str, list[FetchPartition]] = {}
        for (topic, partition), (place, offset) in asked.items():
            size = self._sizes.get(place, _PARTITION_BYTES)
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
            by_topic.setdefault(topic, []).append(wanted)
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=max(_ANSWER_BYTES, *(self._sizes.get(place, 0) for place in places)),
            isolation_level=1,
            topics=[FetchTopic(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
        )
        answer: FetchResponse = await connections.ask_node(
            node, request, timeout_s=connections.timeout_s + _WAIT_MS / 1000, retry=True
        )
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code)
        is_fine = True
        gathered = _Gathered()
        for part in answer.responses or ():
            for data in part.partitions or ():
                place, offset = asked[part.topic, data.partition_index]
                is_fine = await self._tried(place, offset, data, gathered) and is_fine
                if gathered.records >= _TRANSACTION_RECORDS:
                    await self._apply(gathered)
        await self._apply(gathered)
        return is_fine

    async def _tried(self, place: StorePartition, offset: int, data: PartitionData, gathered: _Gathered) -> bool:
        """Whether it went well. A partition that cannot be read, or has corrupt records, keeps no other one waiting."""
        try:
            if data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise error_of(data.error_code)
            await self._take(place, offset, data, gathered)
        except ApiError as error:
            self._complain("read a partition", error, topic=place.store.topic, partition=place.partition)
            return False
        return True

    async def _take(self, place: StorePartition, offset: int, data: PartitionData, gathered: _Gathered) -> None:
        store, partition = place
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._begin_anew(place, offset)
            return
        size = self._sizes.get(place, _PARTITION_BYTES)
        fetched = await decode_fetched(data, offset, size, True)
        if fetched is None:  # a batch that is larger was cut off
            self._sizes[place] = min(_MOST_BYTES, 2 * max(size, len(data.records or b"")))
            return
        if fetched.records:
            self._sizes.pop(place, None)
        end = fetched.last_stable_offset if fetched.last_stable_offset >= 0 else fetched.high_watermark
        store.note_end(partition, end, self._now_ms())
        is_at_end = fetched.next_offset >= end
        if fetched.next_offset != offset or (is_at_end and partition in store.restoring):
            change = ChangelogBatch(partition, fetched.records, fetched.next_offset, is_at_end)
            gathered.add(store, change, offset)

    async def _begin_anew(self, place: StorePartition, offset: int) -> None:
        store, partition = place
        first = await offset_of(self._brokers, store.topic, partition, EARLIEST)
        if not self._is_current(place) or store.position[partition] != offset or partition in store.applying:
            return
        extra = {"store": store.name, "partition": partition, "was_at": offset, "begins_at": first}
        if offset:  # otherwise the partition is new to us, and its first request was for offset 0
            logger.info("a partition of a changelog is read anew", extra=extra)
        store.applying.add(partition)
        try:
            rows = await self._write(self._storage.reset, store.number, {partition: first})
            store.started_anew({partition: first}, rows)
        finally:
            store.applying.discard(partition)

    async def _apply(self, gathered: _Gathered) -> None:
        for store, changes in gathered.take().items():
            fresh = [
                change
                for change, offset in changes
                if store.position.get(change.partition) == offset and change.partition not in store.applying
            ]
            # Checked without a wait in between: nothing is sent to the thread of a store that was replaced before.
            if not fresh or self.stores.get(store.name) is not store:
                continue
            partitions = {change.partition for change in fresh}
            store.applying |= partitions
            try:
                result: Applied = await self._write(self._storage.apply, store.number, fresh, 0)
                store.applied(fresh, result)
            finally:
                store.applying -= partitions
            self.records += sum(len(change.records) for change in fresh)


class _Gathered:
    """Changes of one transaction for each store, with the offsets that they follow."""

    def __init__(self) -> None:
        self._changes: dict[Followed, list[tuple[ChangelogBatch, int]]] = {}
        self.records = 0

    def add(self, store: Followed, change: ChangelogBatch, offset: int) -> None:
        self._changes.setdefault(store, []).append((change, offset))
        self.records += len(change.records)

    def take(self) -> dict[Followed, list[tuple[ChangelogBatch, int]]]:
        taken, self._changes, self.records = self._changes, {}, 0
        return taken
