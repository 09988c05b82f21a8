"""The tries of one call: which failures are followed by another try, and what the caller is told when time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from penstock.client.addresses import Address
from penstock.client.retries import SYSTEM_CHANCE
from penstock.client.routes.failures import may_pass
from penstock.client.routes.links import Link, NobodyAnswersError, NotSentError
from penstock.client.sendings import Sendings
from penstock.core.time.backoff import Backoff, Pauses
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message

T = TypeVar("T")

BACKOFF = Backoff(0.02, 1.0)
# A new topic is unknown to some broker for a moment. Whoever asks for one that does not exist waits as long.
_UNKNOWN_FOR_S = 0.5
# Whoever waits for less in vain has learnt nothing of the broker.
_HUNG_AFTER_S = 5.0


class BrokersUnreachableError(ConnectionError):
    """No broker could be reached, or none of those that were reached knew the way, until the time was over."""


class MovedError(Exception):
    """The answer is from a broker that is not the right one (any more)."""

    def __init__(self, answer: Message) -> None:
        super().__init__("another broker is to be asked")
        self.answer = answer


class Attempts:
    """`retry` allows a second try of a request that may have been executed. While none of the brokers can be reached,
    tries end after `patience_s`, before the time of the call is over. `sendings` is told of answers that are lost.
    """

    def __init__(
        self,
        subject: str,
        *,
        retry: bool,
        patience_s: float | None = None,
        sendings: Sendings | None = None,
        servers: Sequence[Address] = (),
    ) -> None:
        self._subject = subject
        self._sendings = Sendings() if sendings is None else sendings
        self._retry = retry
        self._patience_s = patience_s
        self._servers = servers
        self._alone_since: float | None = None  # no broker was there
        self._pauses = Pauses(BACKOFF, SYSTEM_CHANCE)
        self._failure: Exception | None = None
        self._unknown_until: float | None = None
        self._waits_for: tuple[Link, int] | None = None

    async def run(self, attempt: Callable[[], Awaitable[T]], timeout_s: float) -> T | Any:
        """What `attempt` returns; the last answer of a MovedError when the time is over."""
        try:
            async with asyncio.timeout(timeout_s) as limit:
                while True:
                    try:
                        return await attempt()
                    except (OSError, ApiError, MovedError) as error:
                        if not self._goes_on(error):
                            raise
                        self._failure = error
                        self._check_patience(error)
                    await asyncio.sleep(self._pauses.next_s())
        except TimeoutError:
            if not limit.expired():
                raise
        return self._end(timeout_s)

    async def ask(self, link: Link, message: Message) -> Any:
        """One request. `run` knows by this whether it was sent, and which broker did not answer."""
        self._waits_for = link, link.answers
        try:
            answer = await (await link.begin(message))
        except NotSentError:
            raise
        except OSError:
            self._sendings.lost()
            raise
        self._waits_for = None
        return answer

    def _goes_on(self, error: OSError | ApiError | MovedError) -> bool:
        self._waits_for = None
        if isinstance(error, MovedError):
            return True
        if not may_pass(error):
            return False
        if isinstance(error, OSError):
            return self._retry or not self._sendings.is_lost
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            now = asyncio.get_running_loop().time()
            if self._unknown_until is None:
                self._unknown_until = now + _UNKNOWN_FOR_S
            return now < self._unknown_until
        return True

    def _check_patience(self, error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        if not isinstance(error, NobodyAnswersError):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        if self._patience_s is None or self._alone_since is None:
            return
        if now - self._alone_since >= self._patience_s:
            raise BrokersUnreachableError(f"no way for {self._subject}: {error}") from error

    def _end(self, timeout_s: float) -> Any:
        """The time is over."""
        if self._waits_for is not None:
            link, answers = self._waits_for
            if link.answers == answers and timeout_s >= _HUNG_AFTER_S:  # nobody else was served either
                link.end("the broker did not answer")
            raise TimeoutError(f"no answer to {self._subject} within {timeout_s:g} s")
        if isinstance(self._failure, MovedError):
            return self._failure.answer
        if isinstance(self._failure, ApiError):
            raise self._failure
        reason = "" if self._failure is None else f": {str(self._failure) or type(self._failure).__name__}"
        if not reason and self._servers:  # the time was over before the first try was
            reason = f": no broker answers at {', '.join(f'{host}:{port}' for host, port in self._servers)}"
        raise BrokersUnreachableError(f"no way for {self._subject} within {timeout_s:g} s{reason}") from self._failure
