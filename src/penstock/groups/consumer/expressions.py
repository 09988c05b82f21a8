"""The topics that a regular expression of a KIP-848 group stands for.

Every topic's name is compared with the expression, which a client chose, so it is done in steps before the heartbeat
that needs it is decided on (`operations.prepared_heartbeats`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from penstock.coordinators.regular_expression import NameExpression
from penstock.groups.topics import Topics
from penstock.protocol.errors import ApiError

# The names, or why there are none.
Matched = frozenset[str] | ApiError


def match_topics(
    expression: str, topics: Topics, may_describe: Callable[[str], bool]
) -> Generator[None, None, Matched]:
    """Topics that `may_describe` does not allow are left out."""
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
