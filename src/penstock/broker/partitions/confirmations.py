"""Whether followers still follow, for a leader whom the store cannot tell that it leads.

Such a leader keeps its lease by its followers' fetches. A fetch shows that its sender did not lead when it sent the
fetch, and nothing of the time since. A write needs no more: it is acknowledged only after the followers have fetched it
at the leader's epoch. An answer from memory may be older than what a successor has acknowledged meanwhile. So a
coordinator asks first, and answers when every other member of the in-sync set has followed since the question.

Rules:
- A question is a number. The numbers of a broker rise.
- A follower sends the next fetch of a session when it has the answer to the last one. So a fetch shows that its sender
  still followed when that answer was made, after all questions that were asked before. The first fetch of a session
  shows nothing, as in `suspension`. No clock is asked: a process that stood still is not deceived.
- A session counts for the partitions that it has. A broker whose image has a higher epoch forgets the partition in its
  next fetch, or names it at that epoch. Either detaches its session from the leader.
- A fetch does not wait for news while a question is newer than the last answer of its session. It does wait a little,
  so that questions that come together share an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.waiting import Waiter


class Confirmations:
    __slots__ = ("_asked", "waiters")

    def __init__(self) -> None:
        self._asked = 0
        self.waiters: dict[Waiter, None] = {}  # who has asked

    def ask(self, watches: Iterable[FollowerWatch]) -> int:
        """The number of a new question, to the followers of these sessions."""
        self._asked += 1
        for watch in watches:
            watch.hurry()
        return self._asked

    def note_fetch(self, watch: FollowerWatch) -> None:
        """A fetch of the session has come, and everything that it names was looked at."""
        watch.followed = watch.answered
        for waiter in tuple(self.waiters):
            waiter.wake()

    def note_answer(self, watch: FollowerWatch) -> None:
        """The answer to that fetch is made."""
        watch.answered = self._asked

    def is_asking(self, watch: FollowerWatch) -> bool:
        """Whether the fetch of the session that waits should be answered soon."""
        return watch.answered < self._asked
