"""A broker's compaction without the broker: logs, the cleaner's chore and its counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.broker.upkeep.compaction import Compaction
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import CleanerMetrics
from penstock.log.compaction.worker.process import CleanerProcess
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files
from tests.unit.broker.harness import Host, topic_image
from tests.unit.log.compacted import COMPACTED


class CleaningRig:
    def __init__(self, path: Path, files: Files | None = None, process: CleanerProcess | None = None) -> None:
        self.host = Host(path, files)
        self.metrics = CleanerMetrics()
        self.config = BrokerConfig.parse({})
        self.is_stopping = False
        self.compaction = Compaction(
            lambda: [partition.log for partition in self.host.partitions],
            lambda: self.config.cleaner,
            self.host.clock,
            self.metrics,
            lambda: self.is_stopping,
            process=process,
        )

    def topic(self, name: str, settings: LogSettings = COMPACTED) -> PartitionLog:
        self.host.settings[name] = settings
        self.host.apply(*(topic_image(each) for each in self.host.settings))
        return self.host.partition(name).log

    def run(self) -> None:
        asyncio.run(self.compaction.run())
