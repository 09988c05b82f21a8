"""Whether a request may have been carried out by an earlier sending. The one place that knows.

Kafka's protocol has no id for a change: a broker carries out what comes twice twice, and says of the second time that
the topic exists already, or that there is none to delete. Whoever sends a request more than once tells here what became
of each sending, and whoever reads the last answer asks `may_be_done`. `own_work` says what the answer means then.

A sending leaves doubt:

    lost      the request was sent and no answer came: the connection ended, or the time was over
    refused   by NOT_CONTROLLER or REQUEST_TIMED_OUT: a controller that lost its store, or its place, while it wrote
              does not know itself whether the change was made; Kafka's controllers say the same

A request that never left, because there was no connection, leaves none.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocol.errors import ErrorCode

# The answer of a controller that cannot tell whether it carried the request out.
UNSURE = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


class Sendings:
    """Of one request, however often it is sent."""

    __slots__ = ("is_lost", "is_unsure")

    def __init__(self) -> None:
        self.is_lost = False  # an answer to one of them
        self.is_unsure = False

    @property
    def may_be_done(self) -> bool:
        return self.is_lost or self.is_unsure

    def lost(self) -> None:
        self.is_lost = True

    def refused(self, codes: Iterable[int]) -> None:
        """By any of these."""
        self.is_unsure = self.is_unsure or not UNSURE.isdisjoint(codes)
