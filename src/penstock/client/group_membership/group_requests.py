"""The requests of a member of a classic group, and what their errors mean: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

MEMBER_ID_REQUIRED               join again under the id that the coordinator gave (KIP-394)
UNKNOWN_MEMBER_ID                the group has gone on: join as somebody new
REBALANCE_IN_PROGRESS            join again
ILLEGAL_GENERATION               join again
a coordinator that is away       wait for it
all else                         is the caller's: no further try can help
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.client.retries import SYSTEM_CHANCE
from penstock.client.routes.failures import may_pass
from penstock.core.time.backoff import Backoff, Pauses
from penstock.protocol.errors import ApiError, ErrorCode, error_of, is_retriable, known_code
from penstock.protocol.message import Message
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

_BACKOFF = Backoff(0.05, 1.0)
# A coordinator answers JoinGroup at the end of the rebalance at the latest. This is for the way.
_ON_THE_WAY_S = 5.0
_LEAVING_S = 5.0
# Not retriable by the table: the same request would be refused again. The member joins anew.
_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class GroupProtocol(NamedTuple):
    """One that the member supports: for type `consumer` an assignor's name and the subscription."""

    name: str
    metadata: bytes


class JoinedMember(NamedTuple):
    """What the group's leader is told of each member."""

    member_id: str
    metadata: bytes


class Generation(NamedTuple):
    """What the member was given, and by which names it commits offsets."""

    generation_id: int
    member_id: str
    leader_id: str  # equals member_id at the leader
    protocol: str
    assignment: bytes


class MemberTimes(NamedTuple):
    """Heartbeats come three times within a session, or more often: they tell the member that the group rebalances."""

    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 3_000


# The leader's decision: the name of the protocol that all support, and all members; returns the assignment of each.
# OSError and ApiError from it mean that the member joins again.
Assign = Callable[[str, Sequence[JoinedMember]], Awaitable[Mapping[str, bytes]]]


class Joining:
    """Keeps the member's id from one generation to the next."""

    def __init__(
        self,
        brokers: Brokers,
        group: str,
        protocol_type: str,
        protocols: Callable[[], Sequence[GroupProtocol]],
        assign: Assign,
        times: MemberTimes,
    ) -> None:
        self._brokers = brokers
        self._group = group
        self._protocol_type = protocol_type
        self._protocols = protocols
        self._assign = assign
        self._times = times
        self._member_id = ""

    async def join(self) -> Generation:
        """Tries until it is in a generation. ApiError and LoginRefusedError for what trying again does not mend."""
        pauses = Pauses(_BACKOFF, SYSTEM_CHANCE)
        while True:
            try:
                generation = await self._try_to_join()
            except (OSError, ApiError) as error:
                if not may_pass(error):
                    raise
                generation = None
            if generation is not None:
                return generation
            await asyncio.sleep(pauses.next_s())

    async def beat(self, generation: Generation, timeout_s: float) -> ErrorCode | None:
        """One heartbeat; None where the coordinator could not be asked. Raises ApiError for what cannot be mended."""
        request = HeartbeatRequest(
            group_id=self._group, generation_id=generation.generation_id, member_id=generation.member_id
        )
        try:
            answer: HeartbeatResponse = await self._ask(request, timeout_s)
        except (OSError, ApiError) as error:
            if may_pass(error):
                return None
            raise
        code = known_code(answer.error_code)
        if code == ErrorCode.NONE or code in _AGAIN:
            self._forget_member_if(code)
            return code
        if is_retriable(code):
            return None
        raise error_of(answer.error_code)

    async def leave(self, brokers: Brokers) -> None:
        """Over other connections than the member's: on those a JoinGroup may still wait for its answer."""
        if self._member_id:
            member = MemberIdentity(member_id=self._member_id, reason="the member was closed")
            request = LeaveGroupRequest(group_id=self._group, member_id=self._member_id, members=[member])
            with contextlib.suppress(OSError, ApiError):
                await brokers.ask_coordinator(
                    CoordinatorKind.GROUP, self._group, request, timeout_s=_LEAVING_S, retry=True
                )
            self._member_id = ""

    # ------------------------------------------------------------------------------------ one try

    async def _try_to_join(self) -> Generation | None:
        """None where another try is to be made."""
        joined = await self._join()
        if joined is None:
            return None
        assignments: Mapping[str, bytes] = {}
        if joined.leader == joined.member_id:
            members = [JoinedMember(each.member_id, bytes(each.metadata)) for each in joined.members]
            assignments = await self._assign(joined.protocol_name or "", members)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=self._protocol_type,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )
        synced: SyncGroupResponse = await self._ask(request, self._rebalance_s())
        code = known_code(synced.error_code)
        if code in _AGAIN:
            self._forget_member_if(code)
            return None
        if code != ErrorCode.NONE:
            raise error_of(synced.error_code)
        return Generation(
            joined.generation_id,
            joined.member_id,
            joined.leader,
            joined.protocol_name or "",
            bytes(synced.assignment),
        )

    async def _join(self) -> JoinGroupResponse | None:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._times.session_timeout_ms,
            rebalance_timeout_ms=self._times.rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type=self._protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in self._protocols()],
        )
        answer: JoinGroupResponse = await self._ask(request, self._rebalance_s())
        code = known_code(answer.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = self._member_id = answer.member_id
            answer = await self._ask(request, self._rebalance_s())
            code = known_code(answer.error_code)
        if code in _AGAIN:
            self._forget_member_if(code)
            return None
        if code != ErrorCode.NONE:
            raise ApiError(code, f"group {self._group}: {error_of(answer.error_code).message}")
        self._member_id = answer.member_id
        return answer

    async def _ask(self, request: Message, timeout_s: float) -> Any:
        return await self._brokers.ask_coordinator(
            CoordinatorKind.GROUP, self._group, request, timeout_s=timeout_s, retry=True
        )

    def _rebalance_s(self) -> float:
        return self._times.rebalance_timeout_ms / 1000 + _ON_THE_WAY_S

    def _forget_member_if(self, code: ErrorCode) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
