"""Asks whether followers still follow, for a leader whose session with the store is not sure.

Such a leader keeps its lease by its followers' fetches. A fetch shows that its sender did not lead when it sent the
fetch, and nothing of the time since. A write needs no more: the leader acknowledges a write only after the followers
have fetched it at the leader's epoch. An answer from memory may be older than the writes that a successor has
acknowledged meanwhile. So a coordinator asks first, and answers when every other member of the in-sync set has followed
since the question.

Rules:
- A question is a number. The numbers of a broker rise.
- A follower sends the next fetch of a session when it has the answer to the last fetch. So a fetch shows that its
  sender still followed when the leader made that answer, after all earlier questions. The first fetch of a session
  shows nothing, as in `suspension`. The rule reads no clock: a paused process is not deceived.
- A session counts for its partitions. A broker whose image has a higher epoch forgets the partition in its next fetch,
  or names the partition at that epoch. Either detaches its session from the leader.
- A fetch does not wait for news while a question is newer than the last answer of its session. The fetch does wait a
  little, so that simultaneous questions share an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.purgatory import Waiter
from penstock.replication.leader_state import Watch


class Confirmations:
    __slots__ = ("_asked", "waiters")

    def __init__(self) -> None:
        self._asked = 0
        self.waiters: dict[Waiter, None] = {}  # the waiters behind the questions

    def ask(self, watches: Iterable[Watch]) -> int:
        """The number of a new question to the followers of these sessions."""
        self._asked += 1
        for watch in watches:
            watch.hurry()
        return self._asked

    def note_fetch(self, watch: FollowerWatch) -> None:
        """Notes that a fetch of the session has come, and that all its partitions were checked."""
        watch.followed = watch.answered
        for waiter in tuple(self.waiters):
            waiter.wake()

    def note_answer(self, watch: FollowerWatch) -> None:
        """Notes that the answer to that fetch is complete."""
        watch.answered = self._asked

    def is_asking(self, watch: FollowerWatch) -> bool:
        """Whether the session's waiting fetch should be answered soon."""
        return watch.answered < self._asked
