"""Files and directories that are out of use but stay for file.delete.delay.ms, so that whoever reads them can
finish.
"""

from __future__ import annotations

import logging

from penstock.log.storage.files import Files

logger = logging.getLogger(__name__)


class DelayedDeletes:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._due: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._due)

    def add(self, path: str, due_ms: int) -> None:
        self._due.append((due_ms, path))

    def remove_due(self, now_ms: int) -> None:
        """What cannot be removed is left for the next start: it has a name that marks it as dead."""
        waiting = []
        for due_ms, path in self._due:
            if due_ms > now_ms:
                waiting.append((due_ms, path))
                continue
            try:
                if path.endswith("-delete"):
                    self._files.remove_tree(path)
                else:
                    self._files.unlink(path)
            except OSError as error:
                logger.warning("cannot remove %s: %s", path, error)
        self._due = waiting
