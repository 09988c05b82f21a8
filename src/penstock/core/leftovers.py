"""The files that servers of this process leave on the disk. Watchers hear of them: tests keep those of a failing test.
A temporary directory of a server is made and removed here, so that a watcher can move it away before.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Protocol


class Server(Protocol):
    """A process that writes a log."""

    @property
    def name(self) -> str: ...

    @property
    def log_path(self) -> Path:
        """The server's data is in the same directory."""

    @property
    def is_running(self) -> bool: ...


class Watcher(Protocol):
    def note_server(self, server: Server) -> None:
        """The server starts, perhaps not for the first time."""

    def note_made(self, directory: Path) -> None:
        """A temporary directory was made."""

    def note_unused(self, directory: Path) -> None:
        """No server uses the temporary directory any more. The caller removes it unless the watcher moves it away."""


# Called in whatever thread a server is started or stopped.
watchers: list[Watcher] = []


def note_server(server: Server) -> None:
    for watcher in watchers:
        watcher.note_server(server)


def make_temporary(prefix: str) -> Path:
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    for watcher in watchers:
        watcher.note_made(directory)
    return directory


def remove_temporary(directory: Path) -> None:
    for watcher in watchers:
        watcher.note_unused(directory)
    shutil.rmtree(directory, ignore_errors=True)
