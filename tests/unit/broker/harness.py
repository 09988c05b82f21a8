"""What the tests of the broker's parts share: topics on a real disk, images of them, a disk that waits on demand."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.broker.partitions.leader_context import LeaderContext
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.runtimes.coordinator_runtime import CoordinatorRuntime
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import TopicCounters, TopicMetrics
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.storage.files import Files, OpenFile, StrPath
from penstock.testing.clock import ManualClock
from tests.unit.log.support import TOPIC_ID, Disk

NODE = 1
EMPTY = MetadataImage("cluster")


def topic_image(
    name: str, partitions: int = 1, topic_id: bytes | None = None, configs: Mapping[str, str] | None = None
) -> TopicImage:
    states = tuple(PartitionState(index, (NODE,), (NODE,), NODE) for index in range(partitions))
    return TopicImage(name, topic_id or name.encode().ljust(16, b"\1")[:16], states, configs or {})


def image(*topics: TopicImage) -> MetadataImage:
    return replace(EMPTY, topics={topic.name: topic for topic in topics})


def lead_all(runtime: CoordinatorRuntime[Any, Any, Any, Any], count: int, leader_epoch: int = 0) -> None:
    """All partitions of a coordinator's topic, as an image says that gives them to one broker."""
    for index in range(count):
        runtime.lead(index, leader_epoch)


class Host:
    """The partitions of one broker, on a disk of its own."""

    def __init__(self, directory: Path, files: Files | None = None, node_id: int = NODE) -> None:
        self.path = directory
        self.node_id = node_id
        self.clock = ManualClock()
        self.files = files or Files()
        self.settings: dict[str, LogSettings] = {}
        self.metrics = TopicCounters()
        self.image = EMPTY
        self.open()

    def open(self) -> None:
        self.directories = LogDirectories.open(
            [self.path],
            node_id=self.node_id,
            cluster_id="cluster",
            settings_for=self._settings,
            clock=self.clock,
            files=self.files,
        )
        self.partitions = Partitions(
            self.node_id, self.directories, lambda topic: self._settings(topic.name), self.metrics, self.clock
        )

    def _settings(self, topic: str) -> LogSettings:
        return self.settings.get(topic, LogSettings())

    def apply(self, *topics: TopicImage) -> None:
        old, self.image = self.image, image(*topics)
        self.partitions.apply(old, self.image)
        renames = self.directories.prepare_renames()
        if renames is not None:
            renames.run()
            self.directories.settle_renames(renames)

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.partitions.find(topic, index)
        assert found is not None
        return found

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.is_dir())


class GatedFiles(Files):
    """Every fsync of a log waits until the test lets it pass; `error` makes it fail then."""

    def __init__(self) -> None:
        self._gate = threading.Semaphore(0)
        self.arrived = threading.Semaphore(0)
        self.sync_count = 0
        self.error: Exception | None = None

    def let_pass(self, count: int = 1_000) -> None:
        self._gate.release(count)

    def wait_at_gate(self) -> None:
        self.sync_count += 1
        self.arrived.release()
        assert self._gate.acquire(timeout=30), "nobody opened the gate"
        if self.error is not None:
            raise self.error

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _GatedFile(os.open(path, flags, 0o644), str(path), self)


class _GatedFile(OpenFile):
    __slots__ = ("_files",)

    def __init__(self, fd: int, path: str, files: GatedFiles) -> None:
        super().__init__(fd, path)
        self._files = files

    def sync(self) -> None:
        self._files.wait_at_gate()


def lone_partition(directory: Path, files: Files | None = None, settings: LogSettings | None = None) -> Partition:
    """One partition outside of any broker."""
    log = Disk(directory, files, settings or LogSettings()).create()
    context = LeaderContext(NODE, ManualClock(), 30_000)
    return Partition(log, TOPIC_ID, PartitionState(0, (NODE,), (NODE,), NODE), TopicMetrics(), context)
