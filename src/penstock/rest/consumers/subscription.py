"""The subscription of a consumer instance: topics by name, topics by an expression, or partitions that its caller
names.

The three exclude each other (code 40903). An expression is in RE2's syntax and is matched against all topics that the
caller may see, at the subscription and about once a minute afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from penstock.client.brokers import Brokers
from penstock.coordinators.regular_expression import NameExpression
from penstock.core.steps import finish
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.rest.errors import ILLEGAL_STATE, RestError

# The period of the search for new partitions and topics, during reads.
REFRESH_S = 60.0


class Watched(NamedTuple):
    """Existing topics with their numbers of partitions: another value has to be reported to the group."""

    topics: frozenset[tuple[str, int]]


class InstanceSubscription:
    """`names` are those to join the group with."""

    def __init__(self, names: tuple[str, ...], expression: NameExpression | None = None) -> None:
        self.names = names
        self._expression = expression
        self._watched: Watched | None = None

    @property
    def is_pattern(self) -> bool:
        return self._expression is not None

    async def refresh(self, brokers: Brokers) -> bool:
        """True where topics or partitions have come or gone since the last time. Raises ApiError and OSError."""
        metadata = await brokers.metadata(None if self._expression is not None else list(self.names))
        counts = {
            each.name: len(each.partitions)
            for each in metadata.topics
            if each.name is not None and each.error_code == ErrorCode.NONE and not each.is_internal
        }
        if self._expression is not None:
            self.names = await asyncio.to_thread(_matching, self._expression, sorted(counts))
        watched = Watched(frozenset((name, counts[name]) for name in self.names if name in counts))
        has_changed = self._watched is not None and watched != self._watched
        self._watched = watched
        return has_changed


def _matching(expression: NameExpression, names: Iterable[str]) -> tuple[str, ...]:
    """In a thread: all names together may take some 200 ms. Raises ApiError where they would take longer."""
    return tuple(name for name in names if finish(expression.match_in_steps(name)))


async def by_pattern(text: str) -> InstanceSubscription:
    """Raises RestError for an unreadable expression."""
    try:
        return InstanceSubscription((), await asyncio.to_thread(lambda: NameExpression(text)))
    except ApiError as error:
        raise RestError(422, f"topic_pattern: {error.message}") from None


def check_exclusive(current: InstanceSubscription | None, *, is_manual: bool, wants_pattern: bool) -> None:
    """Raises RestError 40903."""
    if is_manual or (current is not None and current.is_pattern != wants_pattern):
        raise RestError(
            ILLEGAL_STATE, "topics, an expression and partitions exclude each other: delete the subscription first"
        )
