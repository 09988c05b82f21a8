"""Requests that wait until every live replica of a partition has deleted records."""

from __future__ import annotations

from penstock.broker.partitions.purgatory import Waiter


class Deletions:
    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}

    def look_again(self) -> None:
        """A replica has moved its start, a broker came or went, or the leader has changed."""
        for waiter in tuple(self.waiters):
            waiter.wake()
