"""The numbers of the events of one broker, without a repetition over all its restarts.

The broker reserves numbers on disk before their use. A broker that stops cleanly writes down the next number, so no
number is missing after the restart. A killed broker leaves its reservation behind: the next start continues after the
reservation, and the gap in the numbers shows that events may have been lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from penstock.log.storage.files import Files

FILE_NAME = "penstock-audit-sequence.json"
# The size of a reservation: the broker writes one small file for this number of events.
_RESERVED = 10_000


class Beginning(NamedTuple):
    number: int
    was_clean: bool  # also for the first start


class Numbering:
    """`begin`, `reserve` and `end` write files: call them in a thread. Call `take` on the loop."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._next = 1
        self._reserved = 0

    def begin(self, at_least: int = 1) -> Beginning:
        """Begins after a start. `at_least` is one more than the last number that a sink has, for the case that the file
        of numbers was lost.
        """
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
        """Reserves numbers. No sink has an event with such a number, or a later number, before this returns. Raises
        OSError.
        """
        if not self.is_reserved(number):
            self._write(number + _RESERVED + 1, is_clean=False)
            self._reserved = number + _RESERVED

    def end(self) -> None:
        self._write(self._next, is_clean=True)

    def _write(self, following: int, *, is_clean: bool) -> None:
        self._files.write_atomically(self._path, json.dumps({"next": following, "clean": is_clean}).encode())
