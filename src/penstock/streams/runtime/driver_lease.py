"""The right of one driver to run an application, for as long as it holds it. The brokers may be Apache Kafka's.

- A driver that is alone in the group begins at once, although brokers let the first members of a group wait for
  others. Of two that come in the same moment the later one sees both.
- A driver that finds another member waits for the group's assignment. A live driver joins again at its next heartbeat,
  so the newcomer is refused within a second. A driver that was killed is thrown out when its session is over
  (`session.timeout.ms`), and the newcomer begins then.
- A driver that was stopped for longer, and wakes up, finds another holder or becomes the holder again. Until the group
  has answered, it goes on: brokers that are away for long are no reason to end it, and what it writes meanwhile is
  refused where another driver has taken the transactional ids. The same holds for a driver whose login is refused for
  a while: it joins again as soon as it can.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.client.addresses import Address, parse_servers
from penstock.client.brokers import Brokers, CoordinatorKind, LoginRefusedError
from penstock.client.credentials import CredentialsError
from penstock.client.membership import Generation, GroupProtocol, JoinedMember, Member, MemberTimes
from penstock.client.retries import SYSTEM_CHANCE
from penstock.client.routes.first_contact import describe_failure, hint_for
from penstock.client.security import PLAINTEXT, ClientSecurity, client_security, kafka_properties, why_not_ours
from penstock.core.clock import SystemClock
from penstock.core.config.types import ConfigError
from penstock.core.loops import LoopThread
from penstock.core.time.backoff import Backoff, Pauses
from penstock.pipelines.kafka.client_settings import to_librdkafka
from penstock.pipelines.options import OptionError
from penstock.pipelines.pipeline import Settings
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from penstock.streams.runtime.driver_choice import (
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    Driver,
    UnreadableError,
    decide_holder,
)
from penstock.streams.runtime.group_membership import Rejoining
from penstock.streams.topology.errors import StreamsError

logger = logging.getLogger(__name__)

SESSION: Final = "session.timeout.ms"
# The least that Apache Kafka's brokers take (group.min.session.timeout.ms).
_SESSION_MS: Final = 6_000
# How soon a driver that lives has a newcomer refused.
_HEARTBEAT_MS: Final = 1_000
# Between looks at the group; a member is in it after two requests. Where that takes longer the pauses grow.
_LOOKS: Final = Backoff(0.01, 0.2)
# A driver that lives has a newcomer refused before that.
_PATIENT_S: Final = 2.0
# For brokers to be reached at all, and for one of them to answer.
_CONTACT_S: Final = 2.5
_ANSWER_S: Final = 10.0
# Above what a coordinator takes for a rebalance in which one member is dead: elections of coordinators.
_BEYOND_SESSIONS_S: Final = 20.0


class LeaseSettings(NamedTuple):
    group: str
    servers: Sequence[Address]
    security: ClientSecurity = PLAINTEXT
    session_ms: int = _SESSION_MS


class Lease:
    """`check` and `close` may be called from any thread."""

    def __init__(self, application: str, settings: LeaseSettings, own: Driver) -> None:
        self._application, self._group, session_ms = application, settings.group, settings.session_ms
        self._session_ms = session_ms
        self._own = own
        self._client_id = f"penstock-driver-{own.host}-{own.pid}-{secrets.token_hex(4)}"
        self._brokers = Brokers(
            settings.servers,
            settings.security,
            client_id=self._client_id,
            timeout_s=_ANSWER_S,
            patience_s=_CONTACT_S,
        )
        self._thread: LoopThread | None = LoopThread("streams-lease")
        self._membership = Rejoining(self._open_member)
        self._is_holder = False
        self._has_begun = False
        self._is_outside = False
        self._trouble: StreamsError | None = None
        self._told = threading.Event()

    def take(self) -> None:
        """Returns when this driver may begin. StreamsError names the driver that runs."""
        thread = self._thread
        assert thread is not None, "a lease is taken once"
        try:
            limit_s = 2 * self._session_ms / 1000 + _BEYOND_SESSIONS_S
            if not thread.call(self._join(limit_s)) or not self._wait(limit_s):
                raise StreamsError(
                    f"the group {self._group} does not tell whether another driver runs {self._application}",
                    "Look at the brokers: the group has no coordinator, or its members do not settle.",
                )
            self.check()
        except BaseException:
            self.close()
            raise

    def _wait(self, limit_s: float) -> bool:
        """Whether the group has answered. After a long wait a line tells the user why."""
        if self._told.wait(_PATIENT_S):
            return True
        logger.warning(
            "%s: another driver was in the group %s; if it was killed, its session ends within %g s",
            self._application,
            self._group,
            self._session_ms / 1000,
        )
        return self._told.wait(limit_s)

    def check(self) -> None:
        """StreamsError where another driver runs the application, and this one must not go on."""
        if self._trouble is not None:
            raise self._trouble

    def close(self) -> None:
        """Leaves the group: the next driver begins at once. May be called twice."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.call(self._membership.close())
            thread.call(self._brokers.close())
        finally:
            thread.stop()

    def _open_member(self) -> Member:
        session_ms = self._session_ms
        times = MemberTimes(session_ms, session_ms, min(_HEARTBEAT_MS, session_ms // 3))
        return Member(self._brokers, self._group, PROTOCOL_TYPE, self._protocols, _assign, self, times)

    async def _join(self, limit_s: float) -> bool:
        """Whether it is in the group, or another driver is, within the limit."""
        try:
            async with asyncio.timeout(limit_s):
                members = await self._members()
                self._membership.start()
                pauses = Pauses(_LOOKS, SYSTEM_CHANCE)
                while not members and not self._told.is_set():
                    await asyncio.sleep(pauses.next_s())
                    members = await self._members()
        except TimeoutError:
            return False
        if members == [self._client_id] and not self._told.is_set():
            self._begin()
        return True

    async def _members(self) -> list[str]:
        """The client ids of those that are in the group, or still seem to be."""
        request = DescribeGroupsRequest(groups=[self._group])
        try:
            answer = await self._brokers.ask_coordinator(CoordinatorKind.GROUP, self._group, request, retry=True)
        except ApiError as error:
            raise self._refusal(error) from error
        except LoginRefusedError as error:
            raise StreamsError(f"the brokers refuse the login: {error}") from error
        except OSError as error:
            raise StreamsError(f"no broker answers: {describe_failure(error)}", _sentence(hint_for(error))) from error
        found: DescribedGroup = answer.groups[0]
        if found.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise self._refusal(error_of(found.error_code))
        return [member.client_id for member in found.members]

    def _protocols(self) -> Sequence[GroupProtocol]:
        return [GroupProtocol(PROTOCOL, self._own.holding(self._is_holder).encode())]

    def _refusal(self, error: Exception) -> StreamsError:
        code = error.code if isinstance(error, ApiError) else None
        message, hint = _REFUSALS.get(code, ("no driver can join the group {group}: {error}", ""))
        return StreamsError(message.format(group=self._group, error=error), hint)

    # ------------------------------------------------------------------------------------ the group's assignments

    async def assigned(self, generation: Generation) -> None:
        try:
            assignment = Assignment.decode(generation.assignment)
        except UnreadableError as error:
            self._end(StreamsError(f"the drivers in the group {self._group} do not understand each other: {error}"))
            return
        self._membership.settle()
        self._is_outside = False
        if assignment.holder_id == generation.member_id:
            if self._has_begun and not self._is_holder:
                logger.info("%s: the group %s has this driver again", self._application, self._group)
            self._begin()
        elif self._trouble is None:
            self._is_holder = False
            self._end(self._other_runs(assignment.holder))

    async def revoked(self, generation: Generation) -> None:
        """Others join or go: the holder stays the holder."""

    async def lost(self, generation: Generation) -> None:
        self._is_holder = False
        logger.warning("%s: the group %s has lost this driver, which joins again", self._application, self._group)

    async def failed(self, error: Exception) -> None:
        """Only the group's assignment ends a driver that runs: a login may fail while its issuer is away. The driver
        joins again and again to get it: another one may have begun meanwhile."""
        if not self._has_begun:
            self._end(self._refusal(error))
            return
        self._is_holder = False
        if not self._is_outside:
            logger.warning(
                "%s goes on outside of the group %s until it can join again; a second driver would not be refused: %s",
                self._application,
                self._group,
                error,
            )
        self._is_outside = True
        self._membership.try_again()

    def _begin(self) -> None:
        self._is_holder = self._has_begun = True
        self._told.set()

    def _end(self, trouble: StreamsError) -> None:
        self._trouble = trouble
        self._told.set()

    def _other_runs(self, holder: Driver) -> StreamsError:
        if self._has_begun:
            return StreamsError(
                f"another driver has taken over {self._application}: {holder}",
                "This one was not heard of for too long, or both were started in the same moment.",
            )
        return StreamsError(
            f"another driver runs {self._application}: {holder}",
            f"Stop that one first. After kill -9, another can begin {self._session_ms / 1000:g} s later.",
        )


_REFUSALS: Final[Mapping[ErrorCode | None, tuple[str, str]]] = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "this user may not join the group {group}, by which drivers find out whether another one runs",
        "The user needs Read on the group.",
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "the group {group} has members that are no drivers of Penstock",
        "Stop those consumers, or give the application a group of its own: --set group_id=NAME.",
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "the brokers do not allow so short or so long a session in the group {group}",
        f"Set kafka.{SESSION} to what their group.min.session.timeout.ms and group.max.session.timeout.ms allow.",
    ),
}


async def _assign(_protocol: str, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
    assignment = decide_holder({member.member_id: member.metadata for member in members})
    told = b"" if assignment is None else assignment.encode()
    return {member.member_id: told for member in members}


def take_lease(application: str, settings: Settings, checkpoint: str) -> Lease | None:
    """StreamsError where another driver runs. None: the group cannot be reached with settings for librdkafka alone."""
    security = _security_of(application, settings)
    if security is None:
        return None
    try:
        servers = parse_servers(settings.bootstrap_servers)
    except ValueError as error:
        raise StreamsError(f"bootstrap_servers: {error}") from error
    session = settings.kafka.get(SESSION, str(_SESSION_MS)).strip()
    if not session.isdecimal() or int(session) == 0:
        raise StreamsError(f"kafka.{SESSION} is {session!r}, which is no number of milliseconds")
    wanted = LeaseSettings(settings.group_id or application, servers, security, int(session))
    lease = Lease(application, wanted, Driver(socket.gethostname(), os.getpid(), SystemClock().now_ms(), checkpoint))
    lease.take()
    return lease


def _security_of(application: str, settings: Settings) -> ClientSecurity | None:
    try:
        given = to_librdkafka(settings.kafka)
        if reason := why_not_ours(given):
            logger.warning("a second driver of %s would not be refused: %s", application, reason)
            return None
        return client_security(kafka_properties(given))
    except (ConfigError, CredentialsError, OptionError) as error:
        raise StreamsError(str(error)) from error


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith("?") else ".")
