"""Unused files and directories that stay for file.delete.delay.ms, so that their readers can finish.

`take_due` and `settle` run on the owner's thread; the removal between the two runs in any thread.
"""

from __future__ import annotations

from penstock.log.storage.files import Files, OpenFile
from penstock.log.upkeep.removal import Removal


class DelayedDeletes:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._due: list[tuple[int, str]] = []
        self._held: list[OpenFile] = []

    def __len__(self) -> int:
        return len(self._due)

    def add(self, path: str, due_ms: int) -> None:
        self._due.append((due_ms, path))

    def take_due(self, now_ms: int) -> Removal | None:
        """The removal for another thread; None when nothing is due. `settle` must follow before the next call."""
        due = [path for due_ms, path in self._due if due_ms <= now_ms]
        if not due and not self._held:
            return None
        self._due = [(due_ms, path) for due_ms, path in self._due if due_ms > now_ms]
        held, self._held = self._held, []
        return Removal(self._files, due, held)

    def settle(self, removal: Removal) -> None:
        """Files that readers still had open are checked again next time."""
        self._held += removal.held

    def remove_due(self, now_ms: int) -> None:
        """Removes all of it at once, for callers that may block."""
        removal = self.take_due(now_ms)
        if removal is not None:
            while removal.step():
                pass
            self.settle(removal)
