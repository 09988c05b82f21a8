"""The time for which a leader may believe that it leads, by its own clock. Pure.

A leader that has lost the store's session does not learn of a successor. Followers do: a follower that is elected, or
learns of the election, stops fetching at the old epoch. So a leader continues as long as it is sure of its session, or
as long as every other member of its in-sync set keeps fetching at its epoch: then none of them leads. An outage of the
store alone ends no leadership.

A leader without a possible successor stays: the only replica, or the only member of an in-sync set whose topic forbids
unclean elections.

A lease is enough for writes, and not for answers from memory: see `broker.partitions.confirmations`.

The same rule lets a suspended leader continue, where it knows from which time on the others have followed at its epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

# The time for which an in-sync follower may be silent before a leader without a session gives up: three of its fetches,
# which wait half a second each.
LEASE_MS = 2_000


def may_lead(
    is_session_sure: bool,
    other_replicas: int,
    last_fetches_ms: Iterable[int],
    may_be_unclean: bool,
    now_ms: int,
    lease_ms: int,
) -> bool:
    """`last_fetches_ms` are the times of the last fetches of the other in-sync members at the leader's epoch."""
    if is_session_sure or not other_replicas:
        return True
    fetches = list(last_fetches_ms)
    if not fetches:
        return not may_be_unclean
    return all(now_ms - each <= lease_ms for each in fetches)
