"""The topics that match a regular expression of a KIP-848 group.

The expression, which a client chose, is compared with every topic's name, so that happens in steps before the decision
on the heartbeat that needs it (`operations.prepared_heartbeats`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from penstock.coordinators.regular_expression import NameExpression
from penstock.groups.topics import Topics
from penstock.protocol.errors import ApiError

# The names, or the error.
Matched = frozenset[str] | ApiError


def match_topics(
    expression: str, topics: Topics, may_describe: Callable[[str], bool]
) -> Generator[None, None, Matched]:
    """Leaves out topics that `may_describe` does not allow."""
    names: list[str] = []
    try:
        compiled = yield from NameExpression.compile_in_steps(expression)
        for name in topics.by_name:
            if (yield from compiled.match_in_steps(name)) and may_describe(name):
                names.append(name)
            yield
    except ApiError as error:
        return error
    return frozenset(names)
