"""The brokers of one cluster, as an asyncio client sees them with one set of credentials.

`Brokers` finds out which broker leads a partition, coordinates a group or a transaction, or is the controller, and
sends each request there, at the highest version that both sides know. One connection per broker is kept; it is opened
when it is needed, and opened anew after it was lost.

Answers come in the order of the requests on a connection, so a request that waits inside a broker (a fetch that waits
for records, a member that joins a group) holds up what is sent after it. Whoever sends such requests takes connections
of its own by `dedicated`.

Errors: BrokersUnreachableError (no broker could be reached in time), LoginRefusedError (the credentials are wrong),
ConnectionClosedError and TimeoutError (the request was sent, and what became of it is unknown), and ApiError (a broker
answered, and the answer says why not). All but ApiError are OSErrors.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Self

from penstock.client.addresses import Address
from penstock.client.connection import REQUEST_TIMEOUT_S, LoginRefusedError
from penstock.client.own_work import settle_by_asking
from penstock.client.routes.answers import CONTROLLER_MOVED, COORDINATOR_MOVED, LEADER_MOVED, NOWHERE, has_code
from penstock.client.routes.attempts import Attempts, BrokersUnreachableError, MovedError
from penstock.client.routes.links import CONNECT_TIMEOUT_S, Link, Links
from penstock.client.routes.route_finder import RouteFinder
from penstock.client.routes.topology import Topology, metadata_request
from penstock.client.security import PLAINTEXT, SecuritySource
from penstock.client.sendings import Sendings
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata import MetadataResponse

__all__ = ["Brokers", "BrokersUnreachableError", "CoordinatorKind", "LoginRefusedError"]


class CoordinatorKind(enum.IntEnum):
    """The numbers are those of FindCoordinator's key type."""

    GROUP = 0
    TRANSACTION = 1


# For one broker: the topics of a large cluster take their time.
_METADATA_TIMEOUT_S = 10.0


class _Route(NamedTuple):
    """Where a request goes, and what an answer says that is not from there."""

    connect: Callable[[], Awaitable[Link]]
    forget: Callable[[], None]
    moved: frozenset[ErrorCode]


class Brokers:
    """`retry=True` says that the request may be sent a second time: it is idempotent, or `own_work` knows what the
    second answer means. Without it, a request is sent again only where the connection failed before the request was
    sent, or a coordinator or controller answers that it is none (any more). `timeout_s` is for the whole of the call; a
    call that names none has that of the constructor.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        security: SecuritySource = PLAINTEXT,
        *,
        client_id: str = "penstock",
        metadata_age_s: float = 60.0,
        timeout_s: float = REQUEST_TIMEOUT_S,
        patience_s: float | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        """Opens nothing yet. What is known of a topic is asked for anew when it is older than `metadata_age_s`. Calls
        fail before their time is over when no broker could be reached for `patience_s`.
        """
        self.bootstrap = tuple(bootstrap)
        self._patience_s = patience_s
        self._links = Links(security, client_id, connect_timeout_s)
        self._route_finder = RouteFinder(Topology(bootstrap, metadata_age_s), self._links)
        self.timeout_s = timeout_s
        self._parent: Brokers | None = None
        self._dedicated: set[Brokers] = set()

    async def ask(self, message: Message, *, timeout_s: float | None = None, retry: bool = False) -> Any:
        """The answer of any broker that is up. One that does not answer is asked last the next time."""
        asked: list[tuple[Link, int]] = []  # with the number of answers that had come over each

        async def connect() -> Link:
            link = await self._route_finder.connect_any(self._links)
            asked.append((link, link.answers))
            return link

        try:
            answer = await self._ask(message, _Route(connect, lambda: None, NOWHERE), timeout_s, retry)
        except TimeoutError as error:
            link, answers = asked[-1]
            if link.answers == answers:  # nobody else was served either
                self._route_finder.heard.note_failure(link.address, error)
            raise
        self._route_finder.heard.note(asked[-1][0].address, answered=True)
        return answer

    async def ask_node(
        self, node_id: int, message: Message, *, timeout_s: float | None = None, retry: bool = False
    ) -> Any:
        """ApiError BROKER_NOT_AVAILABLE where the cluster has no such broker."""

        route = _Route(lambda: self.connect_node(node_id), self._forget_nodes, NOWHERE)
        return await self._ask(message, route, timeout_s, retry)

    async def ask_controller(self, message: Message, *, timeout_s: float | None = None, retry: bool = False) -> Any:
        """An answer that has NOT_CONTROLLER anywhere is followed up until the time is over, and returned then. A change
        that was sent twice, and finds its own work the second time, is answered as if it had been sent once."""

        async def connect() -> Link:
            return await self._links.get(await self._route_finder.controller())

        route, sendings = _Route(connect, self._forget_controller, CONTROLLER_MOVED), Sendings()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.timeout_s if timeout_s is None else timeout_s)
        answer = await self._ask(message, route, timeout_s, retry, sendings)
        if sendings.may_be_done:
            with contextlib.suppress(OSError, ApiError):  # what cannot be found out leaves the answer as it came
                async with asyncio.timeout_at(deadline):
                    await self._settle(message, answer, route)
        return answer

    async def ask_leader(
        self,
        topic: str,
        partition: int,
        message: Message,
        *,
        timeout_s: float | None = None,
        retry: bool = False,
    ) -> Any:
        """The caller builds the request for that one partition, with the topic's name. With `retry` an answer that says
        that the leader has moved is followed up; without, the caller calls `forget_leader` and decides."""
        route = _Route(
            lambda: self.connect_leader(topic, partition),
            lambda: self.forget_leader(topic, partition),
            LEADER_MOVED if retry else NOWHERE,
        )
        return await self._ask(message, route, timeout_s, retry)

    async def ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        message: Message,
        *,
        timeout_s: float | None = None,
        retry: bool = False,
    ) -> Any:
        """`key` is the group id or the transactional id. An answer that has NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE
        or COORDINATOR_LOAD_IN_PROGRESS anywhere is followed up until the time is over, and returned then."""

        async def connect() -> Link:
            return await self._links.get(await self._route_finder.coordinator((kind, key)))

        route = _Route(connect, lambda: self.forget_coordinator(kind, key), COORDINATOR_MOVED)
        return await self._ask(message, route, timeout_s, retry)

    async def partitions(self, topic: str, *, may_create: bool = False) -> int:
        """How many the topic has, from what is known or from a broker; ApiError UNKNOWN_TOPIC_OR_PARTITION,
        TOPIC_AUTHORIZATION_FAILED or INVALID_TOPIC_EXCEPTION. `may_create` lets a broker create the topic, if its
        configuration has that."""
        known = self._route_finder.topology.topic(topic, asyncio.get_running_loop().time())
        if known is None:
            attempts = self._attempts(f"the partitions of topic {topic}", retry=True)
            known = await attempts.run(lambda: self._route_finder.topic(topic, may_create=may_create), self.timeout_s)
        return len(known.leaders)

    async def metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        may_create: bool = False,
        with_rights: bool = False,
        timeout_s: float | None = None,
        answer_timeout_s: float = _METADATA_TIMEOUT_S,
    ) -> MetadataResponse:
        """Fresh from a broker: of these topics, or of all for None. Errors of topics are in the answer. `with_rights`
        asks for the operations that the caller may do, on the cluster and on the topics. A broker that does not answer
        within `answer_timeout_s` is left for another one."""
        request = metadata_request(topics, may_create=may_create, with_rights=with_rights)
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        attempts = self._attempts("metadata", retry=True)
        answer: MetadataResponse = await attempts.run(
            lambda: self._route_finder.metadata(request, min(timeout_s, answer_timeout_s)), timeout_s
        )
        return answer

    async def connect_node(self, node_id: int) -> Link:
        """For those who ask one broker in their own way. One try: raises OSError and ApiError."""
        return await self._links.get(await self._route_finder.node(node_id))

    async def connect_address(self, address: Address) -> Link:
        """For a broker that need not be in the cluster yet. One try: raises OSError and ApiError."""
        return await self._links.get(address)

    def silent_addresses(self) -> frozenset[Address]:
        """Of brokers that did not answer in time when they were asked what any broker knows."""
        return frozenset(filter(self._route_finder.heard.is_silent, self._route_finder.topology.addresses()))

    async def connect_leader(self, topic: str, partition: int) -> Link:
        """For those who pipeline requests to one leader. One try: raises OSError and ApiError."""
        return await self._links.get(await self._route_finder.leader(topic, partition))

    def forget_leader(self, topic: str, partition: int) -> None:
        """Says that what is known of the topic is not true any more."""
        self._route_finder.topology.forget_topic(topic)

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._route_finder.topology.forget_coordinator((kind, key))

    def dedicated(self) -> Brokers:
        """The same brokers over connections of their own, for requests that wait inside a broker. What is known of the
        cluster is shared. The caller closes what is returned; `close` of the original closes it, too."""
        other = Brokers.__new__(Brokers)
        other.bootstrap = self.bootstrap
        other._patience_s = self._patience_s
        other._links = self._links.clone()
        other._route_finder = self._route_finder
        other.timeout_s = self.timeout_s
        other._parent = self
        other._dedicated = set()
        self._dedicated.add(other)
        return other

    async def hang_up(self) -> None:
        """Closes the connections that nobody waits on, and forgets who the controller was. The next request opens new
        connections, which show the certificates of then.
        """
        self._forget_controller()
        await self._links.keep_only(set())

    async def close(self) -> None:
        """Ends all connections. Whoever waits for an answer gets ConnectionClosedError."""
        for other in list(self._dedicated):
            await other.close()
        if self._parent is None:
            await self._route_finder.close()
        else:
            self._parent._dedicated.discard(self)
        await self._links.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------ asking

    async def _ask(
        self,
        message: Message,
        route: _Route,
        timeout_s: float | None,
        retry: bool,
        sendings: Sendings | None = None,
    ) -> Any:
        sendings = Sendings() if sendings is None else sendings
        attempts = self._attempts(type(message).__name__.removesuffix("Request"), retry=retry, sendings=sendings)

        async def attempt() -> Any:
            try:
                answer = await attempts.ask(await route.connect(), message)
            except (OSError, ApiError):
                route.forget()
                raise
            if route.moved and has_code(answer, route.moved):
                sendings.refused(route.moved)
                route.forget()
                raise MovedError(answer)
            return answer

        return await attempts.run(attempt, self.timeout_s if timeout_s is None else timeout_s)

    async def _settle(self, message: Message, answer: Message, route: _Route) -> None:
        steps = settle_by_asking(message, answer)
        with contextlib.suppress(StopIteration):
            question = next(steps)
            while True:
                question = steps.send(await self._ask(question, route, None, retry=True))

    def _attempts(self, subject: str, *, retry: bool, sendings: Sendings | None = None) -> Attempts:
        return Attempts(subject, retry=retry, patience_s=self._patience_s, sendings=sendings, servers=self.bootstrap)

    def _forget_nodes(self) -> None:
        self._route_finder.topology.nodes = {}

    def _forget_controller(self) -> None:
        self._route_finder.topology.controller_id = -1
