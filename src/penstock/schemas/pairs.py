"""Pairs of types that a comparison has met: each is compared once, also where types refer to themselves.

Rules:
- A pair that is met again while it is being compared is assumed to fit: types that refer to each other for ever fit
  unless something on the way does not.
- When a pair that was assumed to fit turns out not to, pairs found to fit since then may rest on the assumption. They
  are forgotten, and are compared anew when they are met again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.schemas.limits import Budget

_Found = TypeVar("_Found")


class ComparedPairs(Generic[_Found]):
    """The types of both schemas live as long as the comparison, so their identities tell them apart."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        # In the order of insertion. None: the pair is being compared.
        self._known: dict[tuple[int, int], list[_Found] | None] = {}
        self._assumed: set[tuple[int, int]] = set()

    def compare(self, one: object, other: object, compare_new: Callable[[], list[_Found]]) -> list[_Found]:
        """The differences of the pair. `compare_new` compares a pair that is not known."""
        key = (id(one), id(other))
        if key in self._known:
            self._budget.spend()
            known = self._known[key]
            if known is None:
                self._assumed.add(key)
                return []
            return known
        self._budget.descend()
        self._known[key] = None
        found = compare_new()
        if found and key in self._assumed:
            self._forget_since(key)
        self._known[key] = found
        self._assumed.discard(key)
        self._budget.ascend()
        return found

    def _forget_since(self, key: tuple[int, int]) -> None:
        keys = list(self._known)
        self._budget.spend(len(keys))
        for later in keys[keys.index(key) + 1 :]:
            if self._known[later] == []:
                del self._known[later]
