"""The numbers of the events of one broker, without a repetition over all its lives.

Numbers are reserved on the disk before they are used. A broker that stops cleanly writes down the next number, so
nothing is missing between two lives. A broker that is killed leaves its reservation behind: the next life begins after
it, and the jump in the numbers shows that events may have been lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from penstock.log.storage.files import Files

FILE_NAME = "penstock-audit-sequence.json"
# Numbers that are reserved at once: one small file is written for so many events.
_RESERVED = 10_000


class Beginning(NamedTuple):
    number: int
    was_clean: bool  # also where there was no life before


class Numbering:
    """`begin`, `reserve` and `end` write files: in a thread. `take` is called on the loop."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._next = 1
        self._reserved = 0

    def begin(self, at_least: int = 1) -> Beginning:
        """`at_least` is one more than the last number that a sink has, which counts where our file was lost."""
        try:
            kept = json.loads(self._files.read_file(self._path))
            number, was_clean = int(kept["next"]), bool(kept["clean"])
        except FileNotFoundError:
            number, was_clean = 1, at_least == 1
        except (ValueError, KeyError, TypeError):
            number, was_clean = 1, False
        self._next = max(number, at_least)
        self.reserve(self._next)
        return Beginning(self._next, was_clean)

    def take(self) -> int:
        number = self._next
        self._next += 1
        return number

    def is_reserved(self, number: int) -> bool:
        return number <= self._reserved

    def reserve(self, number: int) -> None:
        """No event has this number, or a later one, on any sink before this returns. Raises OSError."""
        if not self.is_reserved(number):
            self._write(number + _RESERVED + 1, is_clean=False)
            self._reserved = number + _RESERVED

    def end(self) -> None:
        self._write(self._next, is_clean=True)

    def _write(self, following: int, *, is_clean: bool) -> None:
        self._files.write_atomically(self._path, json.dumps({"next": following, "clean": is_clean}).encode())
