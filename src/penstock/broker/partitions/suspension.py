"""A leader without a lease: its followers' fetches, and whether these are enough to lead again.

A partition is suspended when the broker heard neither the store nor the in-sync followers for too long: a follower may
lead by now. The store may stay away for hours, while the silence was a pause of one process. So the leadership
continues when every other member of the in-sync set is known to have followed at this leader's epoch since:
- Only a member of the in-sync set is elected, or after an unclean election some replica, whose image has a higher epoch
  from then on.
- A broker whose image has a higher epoch stops fetching at the lower epoch in that same turn of its loop, before it
  leads or follows another leader (`Replicas.apply`).
- A fetch may be older than the suspension, and have waited in a socket while this process was paused. A follower sends
  the next fetch of a session when it has the answer to the last fetch. So a fetch counts from the time at which this
  leader refused the fetch before it in the same session, and the first fetch counts for nothing.
"""

from __future__ import annotations

from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.replication.leader_state import LeaderState
from penstock.replication.progress import NEVER_MS


class Suspension:
    __slots__ = ("_followed_ms", "_refused", "former")

    def __init__(self, former: LeaderState) -> None:
        self.former = former
        self._refused: dict[int, tuple[FollowerWatch, int]] = {}  # by node: its session, and the time of the refusal
        self._followed_ms: dict[int, int] = {}  # by node: the last time at which it still followed

    @property
    def other_replicas(self) -> int:
        return len(self.former.followers)

    def note_refusal(self, watch: FollowerWatch, broker_epoch: int, now_ms: int) -> None:
        """A follower has fetched at the leader's epoch, and gets a refusal."""
        node_id = watch.node_id
        progress = self.former.followers.get(node_id)
        if progress is None or progress.is_outdated(broker_epoch):
            return
        session, refused_ms = self._refused.get(node_id, (None, NEVER_MS))
        if session is watch:
            self._followed_ms[node_id] = refused_ms
        self._refused[node_id] = watch, now_ms

    def last_followed_ms(self) -> list[int]:
        """The times for all other members of the largest in-sync set that may be in force."""
        former = self.former
        return [self._followed_ms.get(each, NEVER_MS) for each in former.followers if each in former.maximal_isr]
