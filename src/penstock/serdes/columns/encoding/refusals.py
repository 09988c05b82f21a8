"""The reasons why single values of a batch do not fit their schema, with the path to the place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.errors import PayloadError


class Refusals:
    """Errors by the value's position in its array. The first reason counts."""

    def __init__(self) -> None:
        self.found: dict[int, PayloadError] = {}

    def add(self, position: int, error: PayloadError) -> None:
        self.found.setdefault(position, error)

    def note(self, is_bad: Numbers, describe: Callable[[int], str]) -> bool:
        """True if any value is bad."""
        positions = np.flatnonzero(is_bad).tolist()
        for position in positions:
            if position not in self.found:
                self.found[position] = PayloadError(describe(position))
        return bool(positions)

    def take(self, inner: Refusals, *steps: str | int) -> None:
        """Takes the errors of values inside the same positions."""
        for position, error in inner.found.items():
            self.add(position, error.inside(*steps) if steps else error)

    def take_at(self, inner: Refusals, positions: Numbers) -> None:
        """Takes the errors of some of the values, at their `positions` here."""
        for at, error in inner.found.items():
            self.add(int(positions[at]), error)

    def take_items(self, inner: Refusals, borders: Numbers, step: Callable[[int, int], str | int]) -> None:
        """Takes the errors of items of lists or maps. `step` names the place, from the item's position in all items and
        in its own list.
        """
        for at, error in sorted(inner.found.items()):
            outer = int(np.searchsorted(borders, at, side="right")) - 1
            self.add(outer, error.inside(step(at, at - int(borders[outer]))))
