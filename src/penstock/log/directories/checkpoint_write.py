"""The checkpoint files of the data directories, captured on the owner's thread and written in any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.log.storage.files import Files


class CheckpointContent(NamedTuple):
    directory: Path
    name: str
    content: bytes


class CheckpointWrite:
    """Like `Flush`: each file costs an fsync, which the event loop must not wait for. What fails is kept in `failures`
    for the owner, who looks at it before the next write, and does not stop the other directories.
    """

    __slots__ = ("_files", "contents", "failures")

    def __init__(self, files: Files, contents: Sequence[CheckpointContent]) -> None:
        self._files = files
        self.contents = contents
        self.failures: dict[Path, OSError] = {}

    def run(self) -> None:
        for directory, name, content in self.contents:
            if directory in self.failures:
                continue
            try:
                self._files.write_atomically(directory / name, content)
            except OSError as error:
                self.failures[directory] = error
