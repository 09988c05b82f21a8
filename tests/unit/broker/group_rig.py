"""A group coordinator and its runtime, on a log on a real disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.slices import Slices
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import GroupMetrics, LogMetrics
from penstock.core.types import TopicPartition
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.operations.table import (
    COMMIT_OFFSETS,
    FETCH_OFFSETS,
    JOIN_GROUP,
    SYNC_GROUP,
)
from penstock.groups.requests import (
    JoinRequest,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
    Protocol,
    SyncRequest,
)
from penstock.groups.results import JoinResult, SyncResult
from penstock.groups.settings import GroupSettings
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from tests.unit.broker.harness import Host, lead_all, topic_image
from tests.waiting import until

PARTITIONS = 2
SETTINGS = GroupSettings(min_session_timeout_ms=1, initial_rebalance_delay_ms=1)


class Rig:
    """A coordinator whose log is on a real disk."""

    def __init__(self, path: Path, files: Files | None = None, settings: LogSettings | None = None) -> None:
        self.host = Host(path, files)
        self.host.settings[CONSUMER_OFFSETS] = settings or LogSettings()
        self.flusher = Flusher(LogMetrics(), self.host.clock)
        self.create_topic()
        self.new_runtime()

    def create_topic(self) -> None:
        self.host.apply(topic_image(CONSUMER_OFFSETS, PARTITIONS))

    def new_runtime(self, coordinator: GroupCoordinator | None = None, slices: Slices | None = None) -> None:
        coordinator, slices = coordinator or GroupCoordinator(SETTINGS, PARTITIONS), slices or Slices(lambda: 0.0)
        self.runtime = GroupRuntime(
            coordinator, self.host.partitions, self.flusher, self.host.clock, GroupMetrics(), slices
        )

    def submit(self, request: OffsetCommitRequest | JoinRequest) -> Coroutine[Any, Any, Any]:
        if isinstance(request, JoinRequest):
            return self.runtime.submit(JOIN_GROUP, request)
        return self.runtime.submit(COMMIT_OFFSETS, request)

    async def commit(self, offset: int, group: str = "g", topic: str = "orders") -> ErrorCode:
        result = await self.submit(OffsetCommitRequest(group, [OffsetToCommit(topic, 0, offset)]))
        (entry,) = result.partitions
        error: ErrorCode = entry.error
        return error

    def committed(self, group: str = "g", topic: str = "orders") -> int | ErrorCode:
        result = self.runtime.shards.read(FETCH_OFFSETS, OffsetFetchRequest(group, [TopicPartition(topic, 0)]))
        return result.error or result.partitions[0].offset

    async def fetch(self, group: str = "g", topic: str = "orders") -> int | ErrorCode:
        """As `committed`, and only what is durable."""
        request = OffsetFetchRequest(group, [TopicPartition(topic, 0)])
        result = await self.runtime.read([group], lambda: self.runtime.shards.read(FETCH_OFFSETS, request))
        return result.error or result.partitions[0].offset

    def partition_of(self, group: str) -> int:
        return self.runtime.shards.partition_for(group)

    async def sync(self, member_id: str, generation_id: int, assignment: bytes | None = None) -> SyncResult:
        given = () if assignment is None else (MemberAssignment(member_id, assignment),)
        request = SyncRequest("g", member_id, generation_id, assignments=given)
        return await self.runtime.submit(SYNC_GROUP, request)

    def join(self, member_id: str = "", timeout_ms: int = 10_000) -> Coroutine[Any, Any, JoinResult]:
        request = JoinRequest("g", member_id, "consumer", (Protocol("range", b""),), timeout_ms, timeout_ms)
        return self.submit(request)

    async def loaded(self) -> None:
        await until(lambda: len(self.runtime.shards.active_partitions()) == PARTITIONS)

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            try:
                lead_all(self.runtime, PARTITIONS)
                await scenario()
            finally:
                await self.runtime.close()
                await self.flusher.close()
                assert len(asyncio.all_tasks()) == 1

        asyncio.run(whole())
        self.host.directories.close()
