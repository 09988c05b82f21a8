"""Replies of one connection that wait for others, in the order of their requests.

A write that is in the log and waits for its replicas or for the disk (`Settling`) lets further writes be served behind
it; nothing else is, so that a client that writes and then asks is told of what it wrote. A reply goes out when all
before it have gone out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.broker.session import Outcome, Reply, Settling, Throttled
from penstock.protocol.message import Buffer, Chunk
from penstock.protocol.messages.produce import ProduceRequest
from penstock.server.net import limits

_WRITE_KEY = ProduceRequest.API_KEY.to_bytes(2, "big")

Future = asyncio.Future[Outcome]


class PendingReplies:
    __slots__ = ("_barrier", "replies")

    def __init__(self) -> None:
        self.replies: list[Future | Reply] = []  # a deque would cost an idle connection 600 bytes
        self._barrier: Future | None = None  # nothing is served behind this one

    def may_serve(self, frame: Buffer) -> bool:
        """Whether a request may be served now."""
        return not self.replies or (
            self._barrier is None and len(self.replies) < limits.PENDING_REPLIES and frame[:2] == _WRITE_KEY
        )

    def add(self, reply: list[Chunk] | Awaitable[Outcome], on_done: Callable[[Future], object]) -> Future | None:
        """A reply that waits, which becomes a future, or one that is ready and waits for those before it."""
        if isinstance(reply, list):
            self.replies.append(reply)
            return None
        future = asyncio.ensure_future(reply.reply if isinstance(reply, Settling) else reply)
        if not isinstance(reply, Settling):
            self._barrier = future
        self.replies.append(future)
        future.add_done_callback(on_done)
        return future

    def take_ready(self) -> tuple[list[Chunk], int, Future | None]:
        """Takes out the replies whose turn has come. With them for how long the client is throttled, in milliseconds,
        and the one that failed, behind which nothing is taken.
        """
        taken: list[Chunk] = []
        throttle_ms = 0
        replies = self.replies
        while replies and not (isinstance(replies[0], asyncio.Future) and not replies[0].done()):
            if replies[0] is self._barrier:
                self._barrier = None
            ready = replies.pop(0)
            if not isinstance(ready, asyncio.Future):
                taken += ready or ()
            elif ready.cancelled() or ready.exception() is not None:
                return taken, throttle_ms, ready
            else:
                outcome = ready.result()
                if isinstance(outcome, Throttled):
                    throttle_ms, outcome = max(throttle_ms, outcome.throttle_ms), outcome.reply
                taken += outcome or ()
        return taken, throttle_ms, None

    def futures(self) -> list[Future]:
        """What waits inside the broker. While there is something, the client has a reason to be silent."""
        return [reply for reply in self.replies if isinstance(reply, asyncio.Future)]
