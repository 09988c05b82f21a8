"""The way of a classic group from one generation to the next.

1. A change begins a rebalance: a member joins, leaves, dies or offers other protocols. `prepare`: members that wait for
   an assignment get the error to rejoin, the others learn it from their next heartbeat.
2. Members rejoin; their JoinGroup requests are parked. When all have, or the rebalance timeout ends, `complete_join`:
   dynamic members that did not rejoin are removed, static members stay, a vote chooses the protocol and all members get
   the new generation. A group that was empty waits a while for more members instead
   (`extend_or_complete_initial_join`).
3. Members ask for their assignment (SyncGroup); the leader brings all assignments. They are recorded, and replay makes
   the group Stable. Members that do not ask within the rebalance timeout are removed (`expire_pending_sync`), and it
   begins again.
"""

from __future__ import annotations

import logging

from penstock.coordinators.newcomers import OWN_SIZE, Newcomer
from penstock.coordinators.outcome import Token
from penstock.groups.classic.group import ClassicGroup, GroupState, InitialDelay, Member
from penstock.groups.outcome import EXPULSIONS, GroupOutcome, TimerKind
from penstock.groups.records.consumer_offsets import encode_group
from penstock.groups.requests import NO_MEMBER_ID
from penstock.groups.results import JoinResult, SyncResult
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

_CAN_START_REBALANCE = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY)


class Rebalance:
    """One step of one group: the group, the outcome, and the time."""

    __slots__ = ("group", "now_ms", "outcome", "settings")

    def __init__(self, group: ClassicGroup, outcome: GroupOutcome, settings: GroupSettings, now_ms: int) -> None:
        self.group = group
        self.outcome = outcome
        self.settings = settings
        self.now_ms = now_ms

    # -------------------------------------------------------------------------------------- beginning

    def start_or_continue(self, reason: str) -> None:
        if self.group.state in _CAN_START_REBALANCE:
            self.prepare(reason)
        else:
            self.complete_join_if_ready()

    def prepare(self, reason: str) -> None:
        group = self.group
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in list(group.members.values()):
                group.update(member._replace(assignment=b""))
            self.answer_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.outcome.cancel_timer(TimerKind.SYNC, group.group_id)
        is_initial = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, self.now_ms)
        logger.debug(
            "rebalance begins",
            extra={
                "group": group.group_id,
                "generation": group.generation_id,
                "members": len(group.members),
                "reason": reason,
            },
        )
        if is_initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            group.has_new_member = False
            group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
            self.outcome.set_timer(TimerKind.JOIN, group.group_id, delay_ms)
        elif group.has_all_members_joined():
            self.complete_join()
        else:
            self.outcome.set_timer(TimerKind.JOIN, group.group_id, group.rebalance_timeout_ms())

    # ---------------------------------------------------------------------------------------- joining

    def complete_join_if_ready(self) -> None:
        """The first rebalance of an empty group does not end when all members are present: more may come."""
        group = self.group
        if group.state is not GroupState.PREPARING_REBALANCE or group.initial_delay is not None:
            return
        if group.has_all_members_joined():
            self.complete_join()

    def on_join_timeout(self) -> None:
        group = self.group
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.initial_delay is None:
            self.complete_join()
        else:
            self.extend_or_complete_initial_join(group.initial_delay)

    def extend_or_complete_initial_join(self, initial: InitialDelay) -> None:
        group = self.group
        if not group.has_new_member or initial.remaining_ms == 0:
            self.complete_join()
            return
        group.has_new_member = False
        delay_ms = min(self.settings.initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial_delay = InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
        self.outcome.set_timer(TimerKind.JOIN, group.group_id, delay_ms)

    def complete_join(self) -> None:
        group = self.group
        self.outcome.cancel_timer(TimerKind.JOIN, group.group_id)
        late = [
            m for m in group.members.values() if m.group_instance_id is None and m.member_id not in group.join_tokens
        ]
        for member in late:
            self._expel(member, TimerKind.JOIN, group.rebalance_timeout_ms())
        if not group.elect_joined_leader() and group.members:
            # Only static members are left and none is back: wait for one, or until their sessions end.
            self.outcome.set_timer(TimerKind.JOIN, group.group_id, group.rebalance_timeout_ms())
            return
        group.initial_delay = None
        group.start_next_generation(self.now_ms)
        logger.debug(
            "generation begins",
            extra={"group": group.group_id, "generation": group.generation_id, "members": len(group.members)},
        )
        if group.state is GroupState.EMPTY:
            self.outcome.records.append(encode_group(group.group_id, group.image({})))
            return
        if group.uses_consumer_protocol() and group.subscribed_topics is None:
            self.outcome.tell_operator(
                logging.WARNING,
                "offsets of a group do not expire: the subscription of a member cannot be read",
                group=group.group_id,
            )
        self._announce_generation()

    def _announce_generation(self) -> None:
        group = self.group
        for member in list(group.members.values()):
            if member.is_new:  # it has sent nothing since it joined
                group.update(member._replace(is_new=False))
                newcomer = member.as_newcomer(group.group_id)
                self._wait_for(member.member_id, member.session_timeout_ms, newcomer)
            else:
                self.expect_heartbeat(member)
            token = group.join_tokens.pop(member.member_id, None)
            if token is not None:
                self.outcome.reply(token, join_result(group, member.member_id))
        group.pending_sync.update(group.members)
        self.outcome.set_timer(TimerKind.SYNC, group.group_id, group.rebalance_timeout_ms())

    # ---------------------------------------------------------------------------------------- syncing

    def answer_syncs(self, error: ErrorCode, assignments: dict[str, bytes] | None = None) -> None:
        """Answers all members that wait for their assignment."""
        group = self.group
        for member_id, token in group.sync_tokens.items():
            if error is ErrorCode.NONE:
                assignment = (assignments or {}).get(member_id, b"")
                self.outcome.reply(token, SyncResult(error, group.protocol_type, group.protocol_name, assignment))
            else:
                self.outcome.reply(token, SyncResult(error))
            # During the wait their sessions could not expire; from now on they can.
            self.expect_heartbeat(group.members[member_id])
        group.sync_tokens.clear()

    def note_sync(self, member_id: str) -> None:
        self.expect_heartbeat(self.group.members[member_id])
        self.group.pending_sync.discard(member_id)
        if not self.group.pending_sync:
            self.outcome.cancel_timer(TimerKind.SYNC, self.group.group_id)

    def expire_pending_sync(self) -> None:
        group = self.group
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
            return
        silent = [member for member in group.members.values() if member.member_id in group.pending_sync]
        timeout_ms = group.rebalance_timeout_ms()
        for member in silent:
            self._expel(member, TimerKind.SYNC, timeout_ms)
        self.prepare(f"{len(silent)} members did not ask for their assignment")

    # ---------------------------------------------------------------------------------------- members

    def expect_heartbeat(self, member: Member, timeout_ms: int | None = None) -> None:
        self._wait_for(member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def expect_join(self, member_id: str, timeout_ms: int, client: str) -> None:
        """The member got a member id and the error to join with it (KIP-394)."""
        group = self.group
        group.pending_join.add(member_id)
        self._wait_for(member_id, timeout_ms, Newcomer(client, group.group_id, OWN_SIZE + len(member_id)))

    def _wait_for(self, member_id: str, delay_ms: int, newcomer: Newcomer | None = None) -> None:
        self.outcome.set_timer(TimerKind.SESSION, self.group.group_id, delay_ms, member_id, newcomer)

    def park_join(self, member_id: str, token: Token[JoinResult]) -> None:
        """A client that lost its connection joins again: no client waits for the earlier answer, but the request must
        not stay open.
        """
        earlier = self.group.join_tokens.get(member_id)
        if earlier is not None:
            self.outcome.reply(earlier, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
        self.group.join_tokens[member_id] = token

    def park_sync(self, member_id: str, token: Token[SyncResult]) -> None:
        earlier = self.group.sync_tokens.get(member_id)
        if earlier is not None:
            self.outcome.reply(earlier, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        self.group.sync_tokens[member_id] = token

    def drop_member(self, member_id: str) -> None:
        """Removes the member from the group and answers its parked requests: UNKNOWN_MEMBER_ID makes a live client join
        again.
        """
        self.answer_parked(member_id, NO_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
        self.outcome.cancel_timer(TimerKind.SESSION, self.group.group_id, member_id)
        self.group.remove(member_id)

    def _expel(self, member: Member, overdue: TimerKind, timeout_ms: int) -> None:
        """The log names the process that did not keep up."""
        self.outcome.tell_operator(
            logging.INFO,
            EXPULSIONS[overdue],
            group=self.group.group_id,
            member=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            timeout_ms=timeout_ms,
        )
        self.drop_member(member.member_id)

    def answer_parked(self, member_id: str, answered_member_id: str, error: ErrorCode) -> None:
        joining = self.group.join_tokens.pop(member_id, None)
        if joining is not None:
            self.outcome.reply(joining, JoinResult(error, answered_member_id))
        syncing = self.group.sync_tokens.pop(member_id, None)
        if syncing is not None:
            self.outcome.reply(syncing, SyncResult(error))

    def expire_session(self, member_id: str) -> None:
        group = self.group
        if member_id in group.pending_join:
            group.remove(member_id)
            if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined():
                self.complete_join()
        elif member_id in group.members and not group.is_heartbeat_satisfied(member_id):
            member = group.members[member_id]
            self._expel(member, TimerKind.SESSION, member.session_timeout_ms)
            if group.state is not GroupState.PREPARING_REBALANCE:
                self.prepare("a member's session expired")
            elif group.has_all_members_joined():
                self.complete_join()


def join_result(group: ClassicGroup, member_id: str, *, with_members: bool = True) -> JoinResult:
    """The present generation in the answer for this member; the leader also gets the members."""
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        members=group.joined_members() if with_members and group.is_leader(member_id) else (),
    )
