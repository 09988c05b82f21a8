"""Files in memory that can be killed at each elementary step of each operation."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Sequence

from penstock.pipelines.sinks.files.operations import StoredFile


class KilledError(Exception):
    """Stands for kill -9: nothing that catches errors may tidy up after it."""


class MemoryFiles:
    """`copies`: as an object store, which has no rename. After `steps_left` elementary steps the process is dead."""

    def __init__(self, *, copies: bool = False) -> None:
        self.stored: dict[str, str] = {}
        self.copies = copies
        self.steps_left: int | None = None

    def step(self) -> None:
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise KilledError
            self.steps_left -= 1

    def names(self, directory: str) -> Sequence[str]:
        self.step()
        return sorted(path.rpartition("/")[2] for path in self.stored if posixpath.dirname(path) == directory)

    def walk(self, directory: str) -> Sequence[StoredFile]:
        self.step()
        prefix = f"{directory}/" if directory else ""
        return [
            StoredFile(path.removeprefix(prefix), len(text))
            for path, text in sorted(self.stored.items())
            if path.startswith(prefix)
        ]

    def exists(self, path: str) -> bool:
        self.step()
        return path in self.stored

    def read(self, path: str) -> str:
        self.step()
        return self.stored[path]

    def write(self, path: str, text: str) -> None:
        self.step()
        if self.copies:
            self.stored[path] = text
            return
        temporary = posixpath.join(posixpath.dirname(path), f".{uuid.uuid4().hex}.tmp")
        self.stored[temporary] = text
        self.step()
        self.stored[path] = self.stored.pop(temporary)

    def move(self, source: str, target: str) -> None:
        self.step()
        self.stored[target] = self.stored[source]
        if self.copies:
            self.step()
        del self.stored[source]

    def delete(self, path: str) -> None:
        for found in [name for name in self.stored if name == path or name.startswith(f"{path}/")]:
            self.step()
            del self.stored[found]
