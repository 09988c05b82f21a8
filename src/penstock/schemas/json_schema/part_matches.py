"""Pairs of old and new parts: as many as possible, with each part in one pair at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def match_all(count: int, candidates: Sequence[Sequence[int]]) -> bool:
    """Whether each of the first `count` parts can have a candidate of its own. Augmenting paths, without recursion."""
    owner: dict[int, int] = {}
    return all(_augment(part, candidates, owner) for part in range(count))


def _augment(part: int, candidates: Sequence[Sequence[int]], owner: dict[int, int]) -> bool:
    came_from: dict[int, int] = {}
    waiting = [part]
    while waiting:
        current = waiting.pop()
        for candidate in candidates[current]:
            if candidate in came_from:
                continue
            came_from[candidate] = current
            if candidate not in owner:
                _flip(candidate, part, came_from, owner)
                return True
            waiting.append(owner[candidate])
    return False


def _flip(candidate: int, part: int, came_from: dict[int, int], owner: dict[int, int]) -> None:
    held = {keeper: each for each, keeper in owner.items()}
    current: int | None = candidate
    while current is not None:
        keeper = came_from[current]
        owner[current] = keeper
        current = None if keeper == part else held[keeper]


def candidates_of(olds: int, news: int, fits: Callable[[int, int], bool]) -> list[list[int]]:
    return [[new for new in range(news) if fits(old, new)] for old in range(olds)]
