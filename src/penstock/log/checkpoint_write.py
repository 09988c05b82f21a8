"""The checkpoint files of a data directory, captured on the owner's thread and written in any."""

from __future__ import annotations

from typing import NamedTuple

from penstock.log.files import Files


class CheckpointWrite(NamedTuple):
    """Like `Flush`: each file costs an fsync, which the event loop must not wait for."""

    files: Files
    contents: tuple[tuple[str, bytes], ...]  # path, content

    def run(self) -> None:
        for path, content in self.contents:
            self.files.write_atomically(path, content)
