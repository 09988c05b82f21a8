"""One look at a cluster: questions to single brokers, bounded in flight, and an end to waiting.

Rules:
- Nothing waits longer than the look's time for an answer. All brokers are asked side by side, each with at most two
  requests on their way: the broker works on one while the other comes, and other clients get their turns between.
- Every question of a look is idempotent, and sent once. Only a kept connection that turns out to be dead is replaced
  by a new one. A broker that does not answer is not asked again in the same look: what it alone knows is missing, with
  the reason, and all else is there.
- A broker that was silent when it was asked for the topics is waited for only a moment again in the same look, and
  asked last in the next.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from penstock.admin.state.parts import Failure, Partial, describe_silence
from penstock.client.addresses import Address
from penstock.client.connection.frames import ConnectionClosedError
from penstock.client.routes.attempts import BrokersUnreachableError
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.messages.metadata import MetadataResponse

# A broker waits up to 2 s for signs of life of a suspect before it answers Metadata.
ANSWER_TIMEOUT_S = 5.0
# Brokers asked at once, each with this many requests on their way.
_BROKERS_AT_ONCE = 64
_REQUESTS_AT_ONCE = 2
# Of the time for an answer: for a broker that was silent a moment ago.
_SILENT_SHARE = 0.2


# A broker by its number, or by its address, where it need not be in the cluster yet.
Node = int | Address
# Why a broker with this version of a request cannot be asked, if that is so.
Explain = Callable[[int], ApiError | None]


class NodeLink(Protocol):
    """The parts of `client.routes.links.Link` that this module uses."""

    address: Address
    served: ApiVersionsResponse

    @property
    def answers(self) -> int: ...

    @property
    def certificate_until(self) -> datetime.datetime | None: ...

    def version_of(self, message: Message) -> int: ...

    async def begin(self, message: Message) -> asyncio.Future[Any]: ...

    def end(self, reason: str) -> None: ...


class Wire(Protocol):
    """The parts of `client.brokers.Brokers` that this module uses."""

    bootstrap: tuple[Address, ...]

    async def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_s: float | None = None, answer_timeout_s: float = ...
    ) -> MetadataResponse: ...

    async def connect_node(self, node_id: int) -> NodeLink: ...

    async def connect_address(self, address: Address) -> NodeLink: ...

    def silent_addresses(self) -> frozenset[Address]: ...


class Look:
    def __init__(self, wire: Wire, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._wire = wire
        self.timeout_s = timeout_s
        self._brokers_at_once = asyncio.Semaphore(_BROKERS_AT_ONCE * _REQUESTS_AT_ONCE)
        self._turns: dict[Node, asyncio.Semaphore] = {}
        self._silence: dict[Node, str] = {}
        self._long_silent = wire.silent_addresses()
        self._unheard: frozenset[int] = frozenset()  # brokers that did not answer when any could have
        self._hurried: frozenset[int] = frozenset()  # those of them that fell silent in this look

    async def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        """Of these topics, or of all. Raises OSError where no broker answers, and ApiError."""
        timeout_s = 2 * self.timeout_s * (len(self._wire.bootstrap) + 1)  # each may be connected to, and then be silent
        try:
            answer = await self._wire.metadata(topics, timeout_s=timeout_s, answer_timeout_s=self.timeout_s)
        except BrokersUnreachableError as error:
            raise BrokersUnreachableError(str(error.__cause__ or "") or str(error)) from error
        silent = self._wire.silent_addresses()
        by_address = {each.node_id: (each.host, each.port) for each in answer.brokers}
        self._unheard = frozenset(node_id for node_id, address in by_address.items() if address in silent)
        self._hurried = frozenset(node_id for node_id in self._unheard if by_address[node_id] not in self._long_silent)
        return answer

    async def ask(self, node: Node, message: Message, explain: Explain | None = None) -> Any:
        """Raises OSError and ApiError. What `explain` says of the version is raised before the request is sent."""
        async with self._turn(node):
            link: NodeLink | None = None
            answers = 0
            try:
                async with asyncio.timeout(self._patience(node)):
                    for is_last in (False, True):
                        link = await self._reach(node)
                        answers = link.answers
                        _check_version(link, message, explain)
                        try:
                            return await (await link.begin(message))
                        except ConnectionClosedError:
                            if is_last:
                                raise
            except TimeoutError:
                if (
                    link is not None and link.answers == answers
                ):  # others who share the connection are not served either
                    link.end("the broker did not answer")
                self._silence[node] = f"no answer within {self._patience(node):g} s"
                raise TimeoutError(self._silence[node]) from None
            except OSError as error:
                self._silence[node] = describe_silence(error)
                raise

    async def ask_any(
        self, message: Message, nodes: Iterable[int] | None = None, explain: Explain | None = None
    ) -> Any:
        """What every broker knows, of the first of `nodes` that answers, or of all brokers. Those that are known to be
        silent come last. Raises OSError and ApiError, as `ask` does.
        """
        if nodes is None:
            nodes = [each.node_id for each in (await self.metadata([])).brokers]
        failure: OSError | ApiError = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker is registered")
        for node_id in sorted(nodes, key=lambda each: each in self._silence or each in self._unheard):
            try:
                return await self.ask(node_id, message, explain)
            except OSError as error:
                failure = error
        raise failure

    async def connect(self, node_id: int) -> NodeLink:
        """For what a connection tells without a question: versions, a certificate. Raises OSError and ApiError."""
        async with self._turn(node_id):
            try:
                async with asyncio.timeout(self._patience(node_id)):
                    return await self._wire.connect_node(node_id)
            except TimeoutError:
                self._silence[node_id] = f"no answer within {self._patience(node_id):g} s"
                raise TimeoutError(self._silence[node_id]) from None
            except OSError as error:
                self._silence[node_id] = describe_silence(error)
                raise

    async def ask_each(
        self, subject: str, requests: Iterable[tuple[int, Message]]
    ) -> Partial[list[tuple[int, Message, Any]]]:
        """Each request with its broker and its answer, and one failure for each broker that did not answer."""
        asked = list(requests)
        answers = await asyncio.gather(
            *(self.ask(node_id, message) for node_id, message in asked), return_exceptions=True
        )
        found: list[tuple[int, Message, Any]] = []
        failures: dict[int, Failure] = {}
        for (node_id, message), answer in zip(asked, answers, strict=True):
            if isinstance(answer, OSError | ApiError):
                failures.setdefault(node_id, Failure.of(subject, answer, node_id))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append((node_id, message, answer))
        return Partial(found, tuple(failures.values()))

    async def ask_any_each(self, subject: str, requests: Iterable[Message], nodes: Iterable[int]) -> Partial[list[Any]]:
        """The answers of any of `nodes`, and one failure where none of them answers."""
        known = list(nodes)
        answers = await asyncio.gather(*(self.ask_any(message, known) for message in requests), return_exceptions=True)
        found: list[Any] = []
        failures: list[Failure] = []
        for answer in answers:
            if isinstance(answer, OSError | ApiError):
                failures.append(Failure.of(subject, answer))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(answer)
        return Partial(found, tuple(failures[:1]))

    @asynccontextmanager
    async def _turn(self, node: Node) -> AsyncIterator[None]:
        turn = self._turns.setdefault(node, asyncio.Semaphore(_REQUESTS_AT_ONCE))
        async with turn, self._brokers_at_once:
            if node in self._silence:
                raise ConnectionError(self._silence[node])
            yield

    async def _reach(self, node: Node) -> NodeLink:
        if isinstance(node, int):
            return await self._wire.connect_node(node)
        return await self._wire.connect_address(node)

    def _patience(self, node: Node) -> float:
        return self.timeout_s * (_SILENT_SHARE if node in self._hurried else 1)


def _check_version(link: NodeLink, message: Message, explain: Explain | None) -> None:
    refusal = None if explain is None else explain(link.version_of(message))
    if refusal is not None:
        raise refusal
