"""The waits for records to be on all in-sync replicas: of producers with acks=all, of coordinators, of the writers of
markers, and of the audit trail. Pure: the caller makes the future and the timer of each wait.

Two kinds of waits share one order by offset. A rising high watermark looks at the waits that it reaches and at no
other, however many there are.

- *A producer's wait outlasts its leader's epoch.* The record is in this replica's log until another broker leads and
  this replica truncates. A suspended leader may lead again, and a broker may be elected anew while no other broker has
  led. An error would tell the client that nothing was written, and the client would write a second time. Only
  `refuse_all` ends such a wait with an error: another broker leads, or the partition has left this broker.
- *A wait of one epoch ends with the epoch* (`end_epoch`): also when this broker is suspended, and also when this broker
  leads again. The waits of coordinators, markers and the audit trail are of this kind. A coordinator's memory belongs
  to one leader epoch and is loaded from the log in the next one, so its reply would tell of state that nobody keeps.
  Such a wait may fail although the records stay: clients of coordinators repeat their requests at the next coordinator,
  a second marker changes nothing, and the number of an audit event shows that it came twice. To wait on would hold up
  clients that could have an answer from the new leader.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from penstock.protocol.errors import ErrorCode


class Wait(Protocol):
    """The part of a future that is used here."""

    def done(self) -> bool: ...

    def set_result(self, result: ErrorCode, /) -> None: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


# The offset to reach, a number that makes entries comparable, whether the wait ends with the epoch, the wait, and the
# timer of its deadline.
_Entry = tuple[int, int, bool, Wait, Timer]


class Acknowledgements:
    __slots__ = ("_done_early", "_entries", "_number")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._number = 0
        self._done_early = 0  # entries that are over, by time or because the client is gone, but still in the heap

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, end_offset: int, wait: Wait, timer: Timer, *, ends_with_epoch: bool = False) -> None:
        """`timer` calls `expire` with this wait when its time is over."""
        self._number += 1
        heappush(self._entries, (end_offset, self._number, ends_with_epoch, wait, timer))

    def release(self, high_watermark: int, code: ErrorCode) -> None:
        """Gives the code to every wait for records below the high watermark."""
        entries = self._entries
        while entries and entries[0][0] <= high_watermark:
            _, _, _, wait, timer = heappop(entries)
            timer.cancel()
            if wait.done():
                self._done_early = max(self._done_early - 1, 0)
            else:
                wait.set_result(code)

    def end_epoch(self, code: ErrorCode) -> None:
        """Gives the code to every wait of one epoch: this epoch is over, or its leader may not lead any more."""
        self._refuse(lambda entry: entry[2], code)

    def refuse_all(self, code: ErrorCode) -> None:
        """Gives the code to every wait: the records may not stay in this log."""
        self._refuse(lambda _: True, code)

    def expire(self, wait: Wait) -> None:
        if not wait.done():
            wait.set_result(ErrorCode.REQUEST_TIMED_OUT)
        self._done_early += 1
        # Under a watermark that stands still such entries must not pile up.
        if self._done_early * 2 > len(self._entries):
            self._keep([entry for entry in self._entries if not entry[3].done()])

    def _refuse(self, is_over: Callable[[_Entry], bool], code: ErrorCode) -> None:
        refused = sorted((entry for entry in self._entries if is_over(entry)), key=lambda entry: entry[1])
        if not refused:
            return
        self._keep([entry for entry in self._entries if not is_over(entry) and not entry[3].done()])
        for _, _, _, wait, timer in refused:
            timer.cancel()
            if not wait.done():
                wait.set_result(code)

    def _keep(self, entries: list[_Entry]) -> None:
        heapify(entries)
        self._entries = entries
        self._done_early = 0
