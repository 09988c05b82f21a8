"""Which file operation fails in a disk round, and how: a plan, and a disk that follows it.

An operation is known by its kind and by the phase of the broker's life in which it came. A life without faults shows
which there are; the rounds then go through all of them, each time failing another one of the kind.
"""

from __future__ import annotations

import enum
import errno
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.log.storage.files import StrPath
from penstock.testing.disks.faulty_files import Fault, FaultyFiles

# Every kind that FaultyFiles can fail. The rounds are not done before each has failed once.
KINDS = (
    *("create", "open", "write", "write_file", "read", "read_file", "send", "sync", "truncate", "rename", "unlink"),
    *("list", "make_directory", "remove_tree", "size", "modified", "lock"),
)
# What a full disk refuses.
_TAKES_SPACE = frozenset({"create", "write", "write_file", "make_directory"})
_MAY_FIND_NO_SPACE = _TAKES_SPACE | {"sync", "rename"}
_PARTIAL_BYTES = (0, 1, 30, 61, 100, 200)


class Cell(NamedTuple):
    kind: str
    phase: str


class Mode(enum.Enum):
    ONCE = "once"
    SAME_KIND = "every one of its kind from then on"
    FULL_DISK = "no space from then on"


@dataclass(frozen=True, slots=True)
class Plan:
    cell: Cell
    number: int  # counted from 1 among the operations of the cell
    mode: Mode
    error: int
    partial_bytes: int  # that a failing write stores first
    is_crash: bool  # between the first and the second life: kill -9, or a clean shutdown

    def within_reach(self, counts: Counter[Cell]) -> Plan:
        """For another try, after a life in which the operation did not come: in the first half of those that came
        there, and in the phase where most of its kind came if none did. How often an operation comes depends on the
        time that appends take, because segments end with age, and its phase on how long another thread takes.
        """
        if counts[self.cell]:
            return replace(self, number=max(1, min(self.number, counts[self.cell] // 2)))
        came = Counter({cell: count for cell, count in counts.items() if cell.kind == self.cell.kind})
        return replace(self, cell=came.most_common(1)[0][0] if came else self.cell, number=1)

    def __str__(self) -> str:
        name = errno.errorcode[self.error]
        partial = f" after {self.partial_bytes} bytes" if self.partial_bytes else ""
        ending = "crash" if self.is_crash else "clean shutdown"
        return (
            f"{self.cell.kind} number {self.number} of {self.cell.phase}: {name}{partial}, {self.mode.value}; {ending}"
        )


def make_plans(
    profiles: Sequence[tuple[bool, Counter[Cell]]], count: int, random_numbers: random.Random
) -> Iterator[Plan]:
    """`profiles`: how often each cell came in a life without faults, for both endings. One cell of every kind first."""
    cells: list[tuple[bool, Cell, int]] = []
    seen: set[Cell] = set()
    for is_crash, counts in profiles:
        for cell, number in sorted(counts.items()):
            if cell not in seen:
                seen.add(cell)
                cells.append((is_crash, cell, number))
    random_numbers.shuffle(cells)
    kinds: set[str] = set()
    first = [each for each in cells if not (each[1].kind in kinds or kinds.add(each[1].kind))]  # type: ignore[func-returns-value]
    order = first + [each for each in cells if each not in first]
    for index in range(count):
        is_crash, cell, most = order[index % len(order)]
        mode = random_numbers.choice(list(Mode) if cell.kind in _TAKES_SPACE else [Mode.ONCE, Mode.SAME_KIND])
        errors = [errno.EIO, errno.ENOSPC] if cell.kind in _MAY_FIND_NO_SPACE else [errno.EIO]
        error = errno.ENOSPC if mode is Mode.FULL_DISK else random_numbers.choice(errors)
        partial = random_numbers.choice(_PARTIAL_BYTES) if cell.kind in ("write", "write_file") else 0
        yield Plan(cell, random_numbers.randint(1, most), mode, error, partial, is_crash)


class PlannedFiles(FaultyFiles):
    """Follows one plan; counts by cell and keeps no list, so that memory says something about the broker."""

    def __init__(self, plan: Plan | None = None) -> None:
        super().__init__(is_synced=False)
        self.counts: Counter[Cell] = Counter()
        self.hits: Counter[Cell] = Counter()
        self._plan = plan
        self._phase: str | None = None
        self._lock = threading.Lock()  # fsync and the cleaner run in other threads

    @property
    def has_failed(self) -> bool:
        return bool(self.hits)

    @contextmanager
    def during(self, phase: str | None) -> Iterator[None]:
        """With None nothing is counted and nothing fails."""
        before, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._phase = before

    def heal(self) -> None:
        self._plan = None

    def note(self, name: str, path: StrPath) -> Fault | None:
        phase = self._phase
        if phase is None:
            return None
        with self._lock:
            cell = Cell(name, _refine(phase, name, str(path)))
            self.counts[cell] += 1
            plan = self._plan
            if plan is None or not self._is_struck(plan, cell):
                return None
            self.hits[cell] += 1
            return Fault(lambda _: True, plan.error, plan.partial_bytes)

    def _is_struck(self, plan: Plan, cell: Cell) -> bool:
        if not self.hits:
            return cell == plan.cell and self.counts[cell] == plan.number
        if plan.mode is Mode.SAME_KIND:
            return cell.kind == plan.cell.kind
        return plan.mode is Mode.FULL_DISK and cell.kind in _TAKES_SPACE


def _refine(phase: str, name: str, path: str) -> str:
    """Parts of an append that are worth being told apart."""
    if path.endswith(".snapshot"):
        return "snapshot"
    if phase == "append" and name in ("create", "rename", "write_file"):
        return "roll"
    if phase == "append" and name == "sync":
        return "flush before the answer"
    return phase
