"""One instance of the registry: reads its topic, belongs to the group of instances, and knows the leader.

The order of a start: the topic is made or checked, read to its end, and only then does the instance join the group, so
that the group elects no instance that does not know the topic. A broker lets the first members of a group wait for
others, three seconds by default. An instance that finds the group empty leads meanwhile. If two do so at the same time,
the later one fences the other, until the group has chosen.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.client.brokers import Brokers, CoordinatorKind, LoginRefusedError
from penstock.client.membership import Generation, GroupProtocol, JoinedMember, Member, MemberTimes
from penstock.client.retries import SYSTEM_CHANCE
from penstock.client.routes.first_contact import wait_for_contact
from penstock.client.transactional_writer import TransactionalWriter
from penstock.core.time.backoff import Backoff, Pauses
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from penstock.registry.log import LogRecord, Replay
from penstock.registry.node.changes import Changes
from penstock.registry.node.election import (
    DUPLICATE_URLS,
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    Identity,
    UnreadableError,
    decide_leader,
)
from penstock.registry.node.leader_writer import LeaderCallbacks, LeaderWriter, empty_noop
from penstock.registry.node.reader import Reader
from penstock.registry.node.topic import TopicError, TopicSettings, ensure_topic

logger = logging.getLogger(__name__)

_BACKOFF = Backoff(0.1, 2.0)
# A leader that dies in the middle of a write holds back readers for so long, unless another one leads before.
_TRANSACTION_MS = 10_000


class NodeError(Exception):
    """The instance cannot go on, and waiting would not help. The text is for its operator."""


class NodeSettings(NamedTuple):
    topic: TopicSettings = TopicSettings()
    group: str = "schema-registry"
    times: MemberTimes = MemberTimes()
    # For a write to be committed and read back.
    timeout_s: float = 30.0


class RegistryNode:
    def __init__(
        self,
        brokers: Brokers,
        settings: NodeSettings,
        replay: Replay,
        on_taken: Callable[[], Awaitable[None]],
        on_reached: Callable[[str], None],
        noop: Callable[[], LogRecord] = empty_noop,
    ) -> None:
        """`replay` gets every record. `on_taken` runs each time when this instance begins to lead. `on_reached` gets
        the id of the cluster. `noop` gives the record that a new leader writes first.
        """
        self.leader: Identity | None = None
        self.is_caught_up = False
        self.was_reached = False  # a broker has answered
        self._brokers = brokers
        self._on_reached = on_reached
        self._settings = settings
        self._changes = Changes()
        self.reader = Reader(brokers, settings.topic.name, replay)
        # Of the group, so that two registries on one cluster do not fence each other.
        writer = TransactionalWriter(
            brokers,
            f"{settings.group}-leader",
            settings.topic.name,
            0,
            transaction_timeout_ms=_TRANSACTION_MS,
            timeout_s=settings.timeout_s,
        )
        self.leader_writer = LeaderWriter(
            writer,
            self.reader,
            LeaderCallbacks(noop, on_taken, self._rejoin, self.fail),
            timeout_s=settings.timeout_s,
            changes=self._changes,
        )
        self._member = Member(
            brokers, settings.group, PROTOCOL_TYPE, self._protocols, _assign, _GroupEvents(self), settings.times
        )
        self._is_claiming = False
        self._was_assigned = False
        self._has_joined = False
        self._is_over = False  # closed, or broken: whatever the group says
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] | None = None
        self._identity: Identity | None = None
        self._end_look: asyncio.Task[int] | None = None
        self._next_end_look: asyncio.Task[int] | None = None

    # ------------------------------------------------------------------------------------------ start and end

    def start(self, identity: Identity) -> None:
        """`identity` has the address by which the other instances reach this one."""
        self._identity = identity
        self._failure = asyncio.get_running_loop().create_future()
        self._spawn(self._join(), "registry start")

    async def close(self) -> None:
        """Leaves the group, so that another instance leads at once. Safe to call twice."""
        self._is_over = True
        self.leader_writer.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._has_joined:
            self._has_joined = False
            await self._member.close()

    async def wait_failed(self) -> None:
        """Ends with NodeError when the instance cannot go on."""
        assert self._failure is not None, "started first"
        await asyncio.shield(self._failure)

    async def _reach(self) -> None:
        brokers = self._brokers
        try:
            found = await wait_for_contact(lambda try_s: brokers.metadata([], timeout_s=try_s), brokers.bootstrap)
        except LoginRefusedError as error:
            raise NodeError(str(error)) from error
        self.was_reached = True
        self._on_reached(found.cluster_id or "")

    async def _join(self) -> None:
        await self._reach()
        pauses = Pauses(_BACKOFF, SYSTEM_CHANCE)
        while True:
            try:
                await ensure_topic(self._brokers, self._settings.topic)
                end = await self.reader.end()
                break
            except (TopicError, LoginRefusedError) as error:
                raise NodeError(str(error)) from error
            except (ApiError, OSError) as error:
                logger.warning("the topic of the registry cannot be reached yet", extra={"error": str(error)})
            await asyncio.sleep(pauses.next_s())
        self._spawn(self.reader.run(), "registry reader")
        await self.reader.wait_for(end)
        logger.info("read the topic of the registry", extra={"position": end, "records": self.reader.records})
        self.is_caught_up = True
        if self.identity.is_eligible and await self._is_first():
            self._is_claiming, self.leader = True, self.identity
            self.leader_writer.enter()
        self._has_joined = True
        self._member.start()

    async def _is_first(self) -> bool:
        """Whether the group is empty. False where the brokers do not answer: then the group decides alone."""
        request = DescribeGroupsRequest(groups=[self.group])
        try:
            answer = await self._brokers.ask_coordinator(CoordinatorKind.GROUP, self.group, request, retry=True)
        except (ApiError, OSError):
            return False
        found: DescribedGroup = answer.groups[0]
        return found.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND) and not found.members

    def _spawn(self, work: Awaitable[None], name: str) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001  # whatever it is: an instance that does not read any more must not answer
                self.fail(error)

        self._tasks.append(asyncio.create_task(guarded(), name=name))

    def fail(self, error: Exception) -> None:
        """Joins the group anew as one that cannot lead, so that it elects another leader while this process goes on."""
        if self._is_over:
            return
        self._is_over = True
        self.leader_writer.leave()
        self._is_claiming = self.is_caught_up = False
        if self._has_joined:
            self._member.rejoin()
        if self._failure is not None and not self._failure.done():
            failure = error if isinstance(error, NodeError) else NodeError(f"{type(error).__name__}: {error}")
            self._failure.set_exception(failure)
            self._failure.exception()  # marks it as read, also if no task waits for it
        logger.error("this instance cannot go on", exc_info=None if isinstance(error, NodeError) else error)

    # ------------------------------------------------------------------------------------------ the leader

    @property
    def identity(self) -> Identity:
        assert self._identity is not None, "started first"
        return self._identity

    @property
    def group(self) -> str:
        return self._settings.group

    @property
    def is_leader(self) -> bool:
        """Whether this instance was elected; it may write once `leader_writer.is_held`."""
        return self._is_claiming

    @property
    def is_ready(self) -> bool:
        return self.is_caught_up and (self.leader_writer.is_held if self.is_leader else self.leader is not None)

    async def wait_ready(self) -> None:
        """Until the leader is known, and may write if it is this instance."""
        await self._changes.wait_until(lambda: self.is_ready)

    async def wait_for_other(self, leader: Identity) -> None:
        """Until another instance leads, or none."""
        await self._changes.wait_until(lambda: self.leader != leader)

    def set_leader(self, assignment: Assignment, *, is_self: bool) -> None:
        if self._is_over:
            return
        self._is_claiming = is_self
        self._was_assigned = True
        if is_self:
            self.leader_writer.enter()
        else:
            self.leader_writer.leave()
        self.leader = assignment.leader
        self._changes.tell()

    def lose(self) -> None:
        """This instance leads no more: another one does, or none."""
        self._is_claiming = False
        self.leader_writer.leave()
        self.leader = None
        self._changes.tell()

    def _rejoin(self) -> None:
        self._member.rejoin()

    def _protocols(self) -> Sequence[GroupProtocol]:
        own = self.identity.claiming(self._is_claiming)
        return [GroupProtocol(PROTOCOL, (replace(own, is_eligible=False) if self._is_over else own).encode())]

    @property
    def was_assigned(self) -> bool:
        return self._was_assigned

    # ------------------------------------------------------------------------------------------ the position

    @property
    def position(self) -> int:
        return self.reader.position

    async def catch_up(self) -> None:
        """Reads up to what is committed now. Raises ApiError and OSError.

        A caller that comes while a request for the end is under way waits for the next one, which serves all such
        callers.
        """
        if self._next_end_look is None:
            self._next_end_look = asyncio.create_task(self._look_after(self._end_look))
        end = await asyncio.shield(self._next_end_look)
        await self.reader.wait_for(end)

    async def _look_after(self, previous: asyncio.Task[int] | None) -> int:
        if previous is not None:
            with contextlib.suppress(Exception):
                await asyncio.shield(previous)
        self._end_look, self._next_end_look = self._next_end_look, None
        return await self.reader.end()


async def _assign(_protocol: str, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    assignment = decide_leader({member.member_id: member.metadata for member in members}).encode()
    return {member.member_id: assignment for member in members}


class _GroupEvents:
    """The events of a group that its member handles."""

    def __init__(self, node: RegistryNode) -> None:
        self._node = node

    async def assigned(self, generation: Generation) -> None:
        node = self._node
        try:
            assignment = Assignment.decode(generation.assignment)
        except UnreadableError as error:
            logger.error("the group of registries gave an assignment that nobody reads", extra={"error": str(error)})
            assignment = Assignment()
        if assignment.error == DUPLICATE_URLS:
            if not node.was_assigned:
                node.fail(
                    NodeError(
                        f"another instance of the group {node.group} has the URL {node.identity.url}, too: "
                        "set host.name to a name that the other instances reach"
                    )
                )
                return
            logger.error("two instances of the registry have the same URL: set host.name")
        is_self = assignment.leader_id == generation.member_id
        leader = assignment.leader.url if assignment.leader else None
        logger.info("the registries have a leader", extra={"leader": leader, "is_self": is_self})
        node.set_leader(assignment, is_self=is_self)

    async def revoked(self, generation: Generation) -> None:
        """Other members join or go. The leader writes on: it stays the leader, or the next one fences it."""

    async def lost(self, generation: Generation) -> None:
        logger.warning("this instance has lost its place among the registries, and joins again")
        self._node.lose()

    async def failed(self, error: Exception) -> None:
        self._node.fail(NodeError(f"cannot be a member of the group {self._node.group}: {error}"))
