"""Removes dead files beside the event loop.

The removal of a gigabyte takes a file system a third of a second, so a `Removal` is captured on the owner's thread and
its steps run in any other. The rules:

- A name is removed when it is due, even while the file has readers: an open file is readable without a name.
- A large file loses its blocks in pieces, with a rest after each: another file's fsync waits for the journal, and so
  for everything that one transaction of the journal frees.
- A file loses its blocks only when no other user has it open. As long as a reader has, the removal holds the file open
  too: otherwise the reader, who runs on the loop, would free the blocks when it closes the file.
- The directory is synced before the first piece is freed. A power failure that took the rename back but not the cut
  would leave a live name on a torn file.
- A file that cannot be removed is left for the next start: its name marks it as dead.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

from penstock.log.formats import names
from penstock.log.storage.files import Files, OpenFile

logger = logging.getLogger(__name__)

# The bytes of a piece. To free this much takes 5 ms, and lets an fsync of another file wait 15 ms instead of 40 to 70
# (ext4; ADR 14).
PIECE_BYTES = 16 * 1024 * 1024
# The number of small files removed in one step: about a millisecond.
_FILES_PER_STEP = 32


class Removal:
    """Call `step` until it returns False, in any thread, one call at a time."""

    def __init__(
        self, files: Files, paths: Sequence[str], held: Sequence[OpenFile] = (), piece_bytes: int = PIECE_BYTES
    ) -> None:
        self._files = files
        self._paths = paths
        self._in_use = held
        self._piece_bytes = piece_bytes
        self._synced: set[str] = set()
        self._steps = self._run()
        self.held: list[OpenFile] = []  # files without a name that still have a reader

    def step(self) -> bool:
        """A few milliseconds of work; returns whether there is more."""
        return next(self._steps, None) is not None

    def _run(self) -> Iterator[int]:
        removed = 0
        for file in self._in_use:
            yield from self._free(file)
        for path in self._paths:
            for dead in self._files_of(path):
                removed += 1
                yield from self._remove(dead)
                if removed % _FILES_PER_STEP == 0:
                    yield 0
            if path.endswith(names.DELETE_DIRECTORY):
                self._remove_directory(path)

    def _files_of(self, path: str) -> list[str]:
        if not path.endswith(names.DELETE_DIRECTORY):
            return [path]
        try:
            return [f"{path}/{name}" for name in self._files.list_names(path)]
        except FileNotFoundError:
            return []
        except OSError as error:
            logger.warning("cannot remove %s: %s", path, error)
            return []

    def _remove(self, path: str) -> Iterator[int]:
        try:
            large = self._open_large(path)
            self._files.unlink(path)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            return  # removed with its directory
        except OSError as error:
            logger.warning("cannot remove %s: %s", path, error)
            return
        if large is not None:
            yield from self._free(large)

    def _open_large(self, path: str) -> OpenFile | None:
        if self._files.size(path) <= self._piece_bytes:
            return None
        directory = os.path.dirname(path)
        if directory not in self._synced:
            self._files.sync_directory(directory)
            self._synced.add(directory)
        return self._files.open(path)

    def _free(self, file: OpenFile) -> Iterator[int]:
        """Frees the blocks of a file without a name. A file system that cannot name its readers frees all of them at
        once.
        """
        is_shared = file.is_shared()
        if is_shared:
            self.held.append(file)
            return
        try:
            if is_shared is False:
                for size in range(file.size() - self._piece_bytes, 0, -self._piece_bytes):
                    file.truncate(size)
                    yield size
        except OSError as error:
            logger.warning("cannot free %s in pieces: %s", file.path, error)
        file.close()
        yield 0

    def _remove_directory(self, path: str) -> None:
        try:
            self._files.remove_tree(path)
        except OSError as error:
            logger.warning("cannot remove %s: %s", path, error)
