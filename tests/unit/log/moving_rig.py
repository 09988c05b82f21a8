"""A log in one of two data directories, on a disk in memory, that can be moved, killed and cut off from power."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from penstock.core.log_settings import LogSettings
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.directories.log_move import LogMove, Pause
from penstock.log.formats import names
from penstock.log.partition_log import PartitionLog
from penstock.log.replica_copies.steps import CopyStep
from penstock.testing.disks.memory import MemoryFiles
from tests.unit.log.support import NOW, PARTITION, SMALL, TOPIC_ID
from tests.unit.log.test_log_directories import opened

A, B = Path("/data/a"), Path("/data/b")
NAME = names.partition_directory(PARTITION)


class MovingDisk:
    def __init__(self, settings: LogSettings = SMALL, files: MemoryFiles | None = None) -> None:
        self.settings = settings
        self.files = files or MemoryFiles()
        for path in (A, B):
            self.files.make_directories(path)
        self.files.sync_directory("/")
        self.files.sync_directory("/data")
        self.directories = self._open()
        self.log = self.directories.create(PARTITION, TOPIC_ID, settings)

    def _open(self) -> LogDirectories:
        return opened(A, B, files=self.files, settings_for=lambda topic: self.settings)

    # ---- ends

    def kill(self) -> PartitionLog:
        self.files = self.files.after_kill()
        return self.start()

    def cut_power(self, chance: random.Random) -> PartitionLog:
        self.files = self.files.after_power_cut(chance)
        return self.start()

    def restart(self) -> PartitionLog:
        self.directories.close()
        return self.start()

    def start(self) -> PartitionLog:
        self.directories = self._open()
        self.log = self.directories.logs[PARTITION]
        self.log.advance_high_watermark_to_end()
        return self.log

    # ---- moves

    def move(self, target: Path = B, step_bytes: int = 500) -> LogMove:
        return LogMove(self.directories, self.files, self.log, target, lambda: NOW, step_bytes)

    def run(self, move: LogMove, between: Callable[[], object] = lambda: None) -> None:
        """To its end. `between` is what happens to the log while threads and clocks work."""
        for step in move.steps():
            self.do(step)
            between()

    def do(self, step: CopyStep | Pause) -> None:
        """What a thread would, or the housekeeping."""
        if isinstance(step, Pause):
            self.directories.write_checkpoints()
        else:
            step.run()

    # ---- looks

    @property
    def places(self) -> list[str]:
        """Where the log is by its plain name."""
        return [path.name for path in (A, B) if NAME in self.files.list_directories(path)]

    def directories_of(self, path: Path) -> list[str]:
        return self.files.list_directories(path)
