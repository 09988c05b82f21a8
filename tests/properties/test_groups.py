"""Several clients do as they please with one group; whatever they do, the coordinator keeps its promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.groups.classic.group import ClassicGroup, GroupState
from penstock.groups.operations.table import DELETE_GROUP, FETCH_OFFSETS
from penstock.groups.outcome import TimerKind
from penstock.groups.records.consumer_offsets import GroupChange, decode_record
from penstock.groups.requests import DeleteGroupRequest, LeavingMember, OffsetFetchRequest, OffsetToCommit, Protocol
from penstock.groups.results import DeleteGroupResult, JoinResult, SyncResult
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ErrorCode
from tests.unit.coordinators.tokens import Receipt
from tests.unit.groups.harness import GROUP, Runtime, subscription

PROTOCOLS = tuple(Protocol(name, subscription("orders", name)) for name in ("range", "sticky", "round-robin"))
CLIENTS = range(5)
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE)


@dataclass
class Client:
    instance: str | None
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    members: tuple[str, ...] = ()
    join_token: Receipt | None = None
    sync_token: Receipt | None = None
    offers: tuple[Protocol, ...] = PROTOCOLS
    assignment: bytes | None = None

    def forget(self) -> None:
        self.member_id, self.generation, self.is_leader, self.assignment = "", -1, False, None


class GroupMachine(RuleBasedStateMachine):
    @initialize(max_size=st.sampled_from([3, 2**31 - 1]), is_settled=st.booleans())
    def start(self, max_size: int, is_settled: bool) -> None:
        self.settings = GroupSettings(max_size=max_size)
        self.runtime = Runtime(self.settings)
        self.clients = [Client(None if number % 2 else f"instance-{number}") for number in CLIENTS]
        # The leaders' words, by generation; a generation may come twice after a crash, then the last word counts.
        self.given: dict[int, dict[str, bytes]] = {}
        self.highest_generation = 0
        self.last_seen: ClassicGroup | None = None
        self.tokens: list[Receipt] = []
        self.committed: dict[tuple[str, int], int] = {}
        if is_settled:
            self.group_settles(set(CLIENTS[:3]), list(PROTOCOLS), b"first")
            assert self.runtime.state() == "Stable"

    # ------------------------------------------------------------------------------------- what clients do

    @rule(
        number=st.sampled_from(CLIENTS),
        offers=st.permutations(PROTOCOLS),
        count=st.integers(1, 3),
        session_timeout_ms=st.sampled_from([6_000, 30_000]),
        accepts_member_id_required=st.booleans(),
        accepts_skip_assignment=st.booleans(),
        as_new=st.booleans(),
    )
    def join(self, number: int, offers: list[Protocol], count: int, as_new: bool, **more: Any) -> None:
        client = self.clients[number]
        if as_new:
            client.forget()
        client.offers = tuple(offers[:count])
        member_id = client.member_id
        token = self.runtime.join(member_id, protocols=client.offers, group_instance_id=client.instance, **more)
        client.join_token = token
        self.tokens.append(token)
        self.collect()

    @rule(number=st.sampled_from(CLIENTS), says=st.binary(min_size=1, max_size=2), is_late=st.booleans())
    def sync(self, number: int, says: bytes, is_late: bool) -> None:
        client = self.clients[number]
        generation = client.generation - 1 if is_late else client.generation
        assignments = {member: says + member.encode() for member in client.members} if client.is_leader else {}
        group = self.group()
        is_word = (
            group is not None
            and group.state is GroupState.COMPLETING_REBALANCE
            and group.generation_id == generation
            and group.leader == client.member_id
        )
        if is_word and group is not None:
            self.given[generation] = {member: assignments.get(member, b"") for member in group.members}
        client.sync_token = self.runtime.sync(
            client.member_id, generation, assignments, group_instance_id=client.instance if client.member_id else None
        )
        self.tokens.append(client.sync_token)
        self.collect()

    @rule(number=st.sampled_from(CLIENTS))
    def leave(self, number: int) -> None:
        client = self.clients[number]
        self.runtime.leave(LeavingMember(client.member_id, client.instance))
        client.forget()
        self.collect()

    @rule(numbers=st.sets(st.sampled_from(CLIENTS), min_size=1), offers=st.permutations(PROTOCOLS))
    def many_join(self, numbers: set[int], offers: list[Protocol]) -> None:
        """As clients of one application do: with the same offers, and with the id they were told."""
        for number in sorted(numbers):
            for _ in range(2):
                if self.clients[number].generation == -1:
                    self.join(number, offers, 3, False, session_timeout_ms=30_000)
        self.time_passes(6_000)

    @rule(says=st.binary(min_size=1, max_size=2), is_leader_last=st.booleans())
    def all_sync(self, says: bytes, is_leader_last: bool) -> None:
        for number in sorted(CLIENTS, key=lambda number: self.clients[number].is_leader is is_leader_last):
            if self.clients[number].generation != -1:
                self.sync(number, says, False)

    @rule(
        numbers=st.sets(st.sampled_from(CLIENTS), min_size=1),
        offers=st.permutations(PROTOCOLS),
        says=st.binary(max_size=2),
    )
    def group_settles(self, numbers: set[int], offers: list[Protocol], says: bytes) -> None:
        self.many_join(numbers, offers)
        self.all_rejoin()
        self.time_passes(6_000)
        self.all_sync(says, True)

    @rule()
    def all_rejoin(self) -> None:
        """As clients do that were told REBALANCE_IN_PROGRESS."""
        for number, client in enumerate(self.clients):
            if client.generation != -1:
                self.join(number, list(client.offers), 3, False, session_timeout_ms=30_000)

    @rule()
    def everybody_sends_a_heartbeat(self) -> None:
        accepted = {
            client.generation
            for client in self.clients
            if client.member_id and self.runtime.heartbeat(client.member_id, client.generation) is ErrorCode.NONE
        }
        assert len(accepted) <= 1

    @rule(
        number=st.sampled_from(CLIENTS),
        partition=st.integers(0, 2),
        offset=st.integers(0, 100),
        is_simple=st.booleans(),
    )
    def commit(self, number: int, partition: int, offset: int, is_simple: bool) -> None:
        client = self.clients[number]
        who: dict[str, Any] = {} if is_simple else {"member_id": client.member_id, "generation_id": client.generation}
        (error,) = self.runtime.commit(OffsetToCommit("orders", partition, offset), **who)
        if error is ErrorCode.NONE:
            self.committed["orders", partition] = offset

    # ---------------------------------------------------------------------------------- what else happens

    @rule(milliseconds=st.sampled_from([1, 1_000, 3_000, 6_000, 30_000, 60_000, 300_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.runtime.advance(milliseconds)
        self.collect()

    @rule(error=st.sampled_from(APPEND_ERRORS))
    def next_append_fails(self, error: ErrorCode) -> None:
        self.runtime.fail_next_append_with = error

    @rule()
    def administrator_deletes_the_group(self) -> None:
        token = self.runtime.token()
        self.runtime.run(
            self.runtime.groups.shards.perform(DELETE_GROUP, token, DeleteGroupRequest(GROUP), self.runtime.now_ms)
        )
        if self.runtime.answer(token, DeleteGroupResult).error is ErrorCode.NONE:
            self.committed.clear()
            self.highest_generation = 0

    @rule()
    def offsets_expire(self) -> None:
        self.runtime.run(self.runtime.groups.expire_offsets(0, self.runtime.now_ms))
        if self.group() is None:
            self.highest_generation = 0

    @rule()
    def coordinator_restarts(self) -> None:
        """Everybody who waits is sent away; what was recorded is there again."""
        before = self.runtime
        for abandoned in before.groups.shards.unload_in_steps(0, before.now_ms):
            before.run(abandoned)
        assert {key.kind for key in before.timers} <= {TimerKind.SESSION}  # of ids that were given out and forgotten
        self.collect()
        assert all(client.join_token is None and client.sync_token is None for client in self.clients)
        self.runtime = self.fresh()
        self.runtime.replies = before.replies
        group = self.group()
        self.highest_generation = group.generation_id if group is not None else 0

    # ------------------------------------------------------------------------------------------ promises

    @invariant()
    def generations_never_go_back(self) -> None:
        """Of one group. A group in which nobody ever had an assignment goes with its last member."""
        group = self.group()
        if group is not self.last_seen:
            self.last_seen, self.highest_generation = group, 0
        if group is not None:
            assert group.generation_id >= self.highest_generation
            self.highest_generation = group.generation_id

    @invariant()
    def members_have_what_the_leader_gave(self) -> None:
        group = self.group()
        if group is not None and group.state is GroupState.STABLE:
            given = self.given[group.generation_id]
            for member in group.members.values():
                if member.group_instance_id is None:
                    assert member.assignment == given[member.member_id]
                else:  # may be the successor of the member that the leader knew
                    predecessors = {
                        name: value for name, value in given.items() if name.startswith(member.group_instance_id)
                    }
                    assert [member.assignment] == list(predecessors.values())

    @invariant()
    def log_tells_the_same(self) -> None:
        fresh = self.fresh()
        mine, other = self.group(), self.group(fresh)
        everything = OffsetFetchRequest(GROUP, None)
        offsets = {
            (found.topic, found.partition): found.offset
            for found in self.runtime.groups.shards.read(FETCH_OFFSETS, everything).partitions
        }
        assert offsets == self.committed
        assert set(fresh.groups.shards.read(FETCH_OFFSETS, everything).partitions) == set(
            self.runtime.groups.shards.read(FETCH_OFFSETS, everything).partitions
        )
        if mine is None or other is None:
            assert mine is other
            return
        changes = [decode_record(*record) for record in self.runtime.log]
        recorded = [change for change in changes if isinstance(change, GroupChange)]
        last = recorded[-1].recorded if recorded else None
        if last is not None:
            assert image(other) == last
            if mine.state is GroupState.STABLE or (
                mine.state is GroupState.EMPTY and mine.generation_id == last.generation_id
            ):
                assert image(mine) == last

    @invariant()
    def everybody_is_waited_for(self) -> None:
        """No request and no member is forgotten: something will happen to each."""
        group, timers = self.group(), self.runtime.timers
        members = {key.member_id for key in timers if key.kind is TimerKind.SESSION}
        kinds = {key.kind for key in timers}
        if group is None:
            return
        waiting = group.join_tokens.keys() | group.sync_tokens.keys()
        assert group.members.keys() - waiting <= members
        assert group.pending_join <= members
        assert (TimerKind.JOIN in kinds) == (group.state is GroupState.PREPARING_REBALANCE)
        assert (TimerKind.SYNC in kinds) == bool(group.pending_sync)
        assert group.state is GroupState.PREPARING_REBALANCE or not group.join_tokens
        assert group.state is GroupState.COMPLETING_REBALANCE or not group.sync_tokens
        assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
        assert group.leader is None or group.leader in group.members
        assert set(group.static_members.values()) == {
            m.member_id for m in group.members.values() if m.group_instance_id
        }

    def teardown(self) -> None:
        if hasattr(self, "runtime"):
            self.runtime.fail_next_append_with = None
            self.runtime.advance(3_600_000)
            self.collect()
            assert self.runtime.timers == {}
            assert self.runtime.state() in ("Empty", "Dead")
            assert all(token in self.runtime.replies for token in self.tokens)

    # --------------------------------------------------------------------------------------------- aids

    def group(self, runtime: Runtime | None = None) -> ClassicGroup | None:
        group = (runtime or self.runtime).groups.shards.hosted(0).groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def fresh(self) -> Runtime:
        runtime = Runtime(self.settings, log=list(self.runtime.log), suffixes=self.runtime.suffixes)
        runtime.now_ms = self.runtime.now_ms
        return runtime

    def collect(self) -> None:
        """Clients read their answers."""
        for client in self.clients:
            if client.join_token in self.runtime.replies:
                self.on_joined(client, self.runtime.answer(client.join_token, JoinResult))
                client.join_token = None
            if client.sync_token in self.runtime.replies:
                client.assignment = self.runtime.answer(client.sync_token, SyncResult).assignment
                client.sync_token = None

    def on_joined(self, client: Client, result: JoinResult) -> None:
        if result.error is ErrorCode.NONE:
            assert result.protocol_name in {protocol.name for protocol in client.offers}
            client.member_id, client.generation = result.member_id, result.generation_id
            client.is_leader = result.leader == result.member_id
            client.members = tuple(member.member_id for member in result.members)
            assert bool(client.members) == client.is_leader
        elif result.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = result.member_id
        else:
            client.forget()


def image(group: ClassicGroup) -> object:
    return group.image({member.member_id: member.assignment for member in group.members.values()})


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
