"""fsync beside the event loop.

fsync may take tens of milliseconds, so it runs in another thread while the owner goes on appending. What it touches is
fixed beforehand, on the owner's thread: `PartitionLog.prepare_flush` captures open files and paths in a `Flush`,
`Flush.run` in any thread syncs them, and back on the owner's thread `PartitionLog.mark_flushed` moves the recovery
point. The thread shares no mutable state with the log: the open files are kept open by the Flush itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from penstock.log.files import Files, OpenFile


class Flush:
    """Everything below `offset` is durable once `run` has returned."""

    __slots__ = ("_directory", "_files", "_log_files", "_paths", "offset", "truncation_count")

    def __init__(
        self,
        files: Files,
        offset: int,
        log_files: Sequence[OpenFile],
        paths: Sequence[str],
        directory: str | None,
        truncation_count: int,
    ) -> None:
        self._files = files
        self._log_files = log_files
        self._paths = paths
        self._directory = directory
        self.offset = offset
        self.truncation_count = truncation_count

    def run(self) -> int:
        """The offset now durable. An OSError means that the kernel may have dropped what it could not write: the owner
        must take the partition offline, as trying again would only pretend to succeed."""
        for file in self._log_files:
            file.sync()
        for path in self._paths:
            # Deleted by retention in the meantime: then nobody needs it durable.
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_file(path)
        if self._directory is not None:
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_directory(self._directory)
        return self.offset
