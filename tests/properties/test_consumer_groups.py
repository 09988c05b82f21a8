"""Members of both protocols do as they please with one group, answers get lost, topics come and go, the coordinator
restarts: no two members own a partition, epochs do not go back, the log tells everything, and calm brings the target.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.groups.classic.group import ClassicGroup, GroupState
from penstock.groups.consumer.group import ConsumerGroup, Group
from penstock.groups.requests import LeavingMember, Protocol
from penstock.groups.results import JoinResult, SyncResult
from penstock.groups.subscription import decode_assignment, encode_assignment_for
from penstock.groups.topics import Topic, TopicIdPartition, Topics
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.unit.coordinators.tokens import Receipt
from tests.unit.groups.consumer_harness import AT_ONCE, ConsumerRuntime, durable
from tests.unit.groups.harness import GROUP

NAMES = ("orders", "users", "items")
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)
MUST_JOIN_ANEW = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
SESSION_MS = 10_000
SETTINGS = AT_ONCE._replace(
    consumer_session_timeout_ms=SESSION_MS, min_session_timeout_ms=1_000, initial_rebalance_delay_ms=1_000
)


@dataclass
class NewClient:
    """Speaks KIP-848. `owned` is what the application works on; `assigned` what it was told and has yet to do."""

    number: int
    instance: str | None
    life: int = 0
    epoch: int = -1  # -1: not in the group
    owned: set[TopicIdPartition] = field(default_factory=set)
    assigned: set[TopicIdPartition] | None = None
    topics: frozenset[str] = frozenset({"orders"})
    regex: str | None = None

    @property
    def member_id(self) -> str:
        return f"new-{self.number}-{self.life}"

    def forget(self) -> None:
        self.epoch, self.assigned = 0, None
        self.owned.clear()

    def work(self) -> None:
        """Gives up and takes what it was told to."""
        if self.assigned is not None:
            self.owned, self.assigned = set(self.assigned), None


@dataclass
class OldClient:
    """Speaks the classic protocol with an eager assignor: owns nothing while it joins. As Kafka's client, it sends no
    heartbeat before it has joined and joins again if an answer was an error or did not come.
    """

    number: int
    member_id: str = ""
    generation: int = -1  # -1: has to join
    is_in: bool = False
    owned: set[TopicIdPartition] = field(default_factory=set)
    members: tuple[str, ...] = ()
    join_token: Receipt | None = None
    sync_token: Receipt | None = None
    topics: tuple[str, ...] = ("orders",)

    def forget(self) -> None:
        self.member_id, self.generation, self.members = "", -1, ()
        self.join_token = self.sync_token = None
        self.owned.clear()


def of_existing(topics: Topics, partitions: set[TopicIdPartition]) -> set[TopicIdPartition]:
    """The classic protocol assigns by name. A group that changes its protocol reads these names, as in Kafka, and
    forgets partitions of topics that are gone. A classic member works on them until it rejoins, and nobody else can: a
    topic made anew has another id.
    """
    return {partition for partition in partitions if partition.topic_id in topics.by_id}


class ConsumerGroupMachine(RuleBasedStateMachine):
    @initialize(new=st.integers(0, 3), old=st.integers(0, 2))
    def start(self, new: int, old: int) -> None:
        self.counts = {"orders": 3, "users": 2}
        self.lives: Counter[str] = Counter()
        self.runtime = ConsumerRuntime(SETTINGS, self.topics())
        self.new = [NewClient(number, f"instance-{number}" if number == 0 else None) for number in range(3)]
        self.old = [OldClient(number) for number in range(2)]
        self.former: tuple[ConsumerGroup | None, int, int] = (None, 0, 0)
        for number in range(old):
            self.old_client_joins(number, {"orders"})
        for number in range(new):
            self.enter(number, {"orders", "users"}, None)
        self.calm()

    # ------------------------------------------------------------------------------------- the new protocol

    @rule(
        number=st.integers(0, 2),
        topics=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2),
        regex=st.sampled_from([None, None, "o.*|i.*"]),
    )
    def enter(self, number: int, topics: set[str], regex: str | None) -> None:
        client = self.new[number]
        client.topics, client.regex = frozenset(topics), regex
        if client.epoch == -1:
            client.forget()
        self.beat(number, False, True)

    @rule(number=st.integers(0, 2), is_lost=st.booleans(), says_all=st.booleans())
    def beat(self, number: int, is_lost: bool, says_all: bool) -> None:
        client = self.new[number]
        if client.epoch < 0:
            return
        more = {}
        if client.epoch == 0 or says_all:
            more = {"rebalance_timeout_ms": 5_000, "topic_names": client.topics, "topic_regex": client.regex or ""}
        answer = self.runtime.beat(
            client.member_id, client.epoch, instance_id=client.instance, owned=frozenset(client.owned), **more
        )
        if is_lost:
            return
        if answer.error in MUST_JOIN_ANEW:
            client.forget()
        elif answer.error in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.forget()
            client.epoch = -1
        elif answer.error is ErrorCode.NONE:
            assert answer.member_epoch >= client.epoch
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                client.assigned = set(answer.assignment)

    @rule(number=st.integers(0, 2))
    def work(self, number: int) -> None:
        self.new[number].work()

    @rule(number=st.integers(0, 2))
    def new_client_leaves(self, number: int) -> None:
        client = self.new[number]
        if client.epoch > 0:
            client.forget()
            self.runtime.beat(client.member_id, -1, instance_id=client.instance)
        client.forget()
        client.epoch = -1

    @rule(says_goodbye=st.booleans())
    def static_client_restarts(self, says_goodbye: bool) -> None:
        client = self.new[0]
        if client.epoch > 0 and says_goodbye:
            self.runtime.beat(client.member_id, -2, instance_id=client.instance)
        client.forget()
        client.life += 1
        self.beat(0, False, True)

    @rule(number=st.integers(1, 2))
    def new_client_crashes(self, number: int) -> None:
        self.new[number].forget()
        self.new[number].epoch = -1
        self.new[number].life += 1

    # --------------------------------------------------------------------------------- the classic protocol

    @rule(number=st.integers(0, 1), topics=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
    def old_client_joins(self, number: int, topics: set[str]) -> None:
        client = self.old[number]
        client.topics, client.is_in = tuple(sorted(topics)), True
        self.join(client)

    def join(self, client: OldClient) -> None:
        if client.join_token is not None:
            return
        client.owned.clear()
        client.generation, client.sync_token = -1, None
        body = ConsumerProtocolSubscription(topics=list(client.topics), owned_partitions=[])
        protocol = Protocol("range", b"\0\1" + encode(body, 1))
        client.join_token = self.runtime.join(
            client.member_id, protocols=(protocol,), session_timeout_ms=SESSION_MS, rebalance_timeout_ms=5_000
        )
        self.collect()

    @rule(number=st.integers(0, 1), is_lost=st.booleans())
    def old_client_beats(self, number: int, is_lost: bool) -> None:
        client = self.old[number]
        if not client.is_in or client.join_token is not None or client.sync_token is not None:
            return
        if client.generation == -1:
            self.join(client)
            return
        error = self.runtime.heartbeat(client.member_id, client.generation)
        if is_lost:
            return
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.join(client)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.forget()
            self.join(client)

    @rule(number=st.integers(0, 1))
    def old_client_leaves(self, number: int) -> None:
        client = self.old[number]
        if client.member_id:
            self.runtime.leave(LeavingMember(client.member_id))
        client.forget()
        client.is_in = False
        self.collect()

    @rule(number=st.integers(0, 1))
    def old_client_crashes(self, number: int) -> None:
        self.old[number].forget()
        self.old[number].is_in = False

    def collect(self) -> None:
        """Answers that have come, and what clients do at once about them; again, until nothing happens."""
        for _ in range(20):
            if not sum(self.hear_join(client) + self.hear_sync(client) for client in self.old):
                return

    def hear_join(self, client: OldClient) -> bool:
        if client.join_token is None or self.runtime.is_parked(client.join_token):
            return False
        answer = self.runtime.answer(client.join_token, JoinResult)
        client.join_token = None
        if answer.error is ErrorCode.NONE:
            client.member_id, client.generation = answer.member_id, answer.generation_id
            client.members = tuple(member.member_id for member in answer.members)
            client.sync_token = self.runtime.sync(client.member_id, client.generation, self.assign(client))
        elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            self.join(client)
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.forget()
        return True

    def assign(self, leader: OldClient) -> dict[str, bytes]:
        topics = self.runtime.groups.topics
        shares: dict[str, list[TopicIdPartition]] = {member: [] for member in leader.members}
        group = self.group()
        if not shares or not isinstance(group, ClassicGroup):
            return {}
        wanted = sorted(name for name in NAMES if name in topics.by_name and group.is_subscribed_to(name))
        for index, partition in enumerate(topics.partitions(topics.by_name[name].topic_id for name in wanted)):
            shares[leader.members[index % len(leader.members)]].append(partition)
        return {member: encode_assignment_for(b"\0\1", share, topics) for member, share in shares.items()}

    def hear_sync(self, client: OldClient) -> bool:
        if client.sync_token is None or self.runtime.is_parked(client.sync_token):
            return False
        answer = self.runtime.answer(client.sync_token, SyncResult)
        client.sync_token = None
        if answer.error is ErrorCode.NONE:
            client.owned = set(decode_assignment(answer.assignment, self.runtime.groups.topics)[0])
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.forget()
        else:
            self.join(client)
        return True

    # -------------------------------------------------------------------------------------------- the world

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 4))
    def topics_change(self, name: str, count: int) -> None:
        before = self.counts.get(name, 0)
        if count == 0:
            self.counts.pop(name, None)
        elif before == 0:
            self.counts[name] = count
            self.lives[name] += 1
        else:
            self.counts[name] = max(before, count)
        self.runtime.groups.on_topics_changed(self.topics())

    def topics(self) -> Topics:
        return Topics.of(
            Topic(name, f"{name}-{self.lives[name]}".encode().ljust(16), count) for name, count in self.counts.items()
        )

    @rule(milliseconds=st.sampled_from([500, 3_000, 6_000, 11_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.runtime.advance(milliseconds)
        self.collect()

    @rule(error=st.sampled_from(APPEND_ERRORS))
    def next_append_fails(self, error: ErrorCode) -> None:
        self.runtime.fail_next_append_with = error

    @rule()
    def coordinator_restarts(self) -> None:
        now_ms = self.runtime.now_ms
        self.runtime = self.runtime.restarted()
        self.runtime.timers = {key: due + now_ms - self.runtime.now_ms for key, due in self.runtime.timers.items()}
        self.runtime.now_ms = now_ms
        for client in self.old:
            if client.join_token is not None or client.sync_token is not None:
                client.generation, client.join_token, client.sync_token = -1, None, None

    @rule()
    def calm(self) -> None:
        """Everybody alive goes on without faults for a while."""
        self.runtime.fail_next_append_with = None
        for _ in range(40):
            self.runtime.advance(1_000)
            for client in self.new:
                if client.epoch >= 0:
                    self.beat(client.number, False, True)
                    client.work()
            for old in self.old:
                self.old_client_beats(old.number, False)
            self.collect()
        self.check_settled()

    def check_settled(self) -> None:
        group = self.group()
        if group is None or group.state is GroupState.EMPTY:
            return
        assert group.state is GroupState.STABLE
        if isinstance(group, ConsumerGroup):
            assert group.target_epoch == group.epoch
            for member_id, owned in self.owned_by().items():
                assert owned == group.target[member_id]
            topic_ids = self.runtime.groups.topics.ids(group.subscribed_names())
            everything = Counter(partition for target in group.target.values() for partition in target)
            assert everything == Counter(self.runtime.groups.topics.partitions(topic_ids))

    # ---------------------------------------------------------------------------------------------- promises

    def group(self) -> Group | None:
        return self.runtime.groups.shards.hosted(0).groups.get(GROUP)

    def owned_by(self) -> dict[str, set[TopicIdPartition]]:
        """What clients work on, of those that the coordinator knows."""
        group = self.group()
        clients: list[NewClient | OldClient] = [*self.new, *self.old]
        return {
            client.member_id: client.owned
            for client in clients
            if group is not None and client.member_id in group.members
        }

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners = Counter(partition for owned in self.owned_by().values() for partition in owned)
        assert all(count == 1 for count in owners.values()), self.owned_by()
        group = self.group()
        if isinstance(group, ConsumerGroup):
            claims = Counter(
                partition
                for member in group.members.values()
                for partition in (*member.assigned, *member.pending_revocation)
            )
            assert all(count == 1 for count in claims.values())
            assert group.owners.keys() == claims.keys()
            for member_id, owned in self.owned_by().items():
                member = group.members[member_id]
                believed = owned if member.classic is None else of_existing(self.runtime.groups.topics, owned)
                assert believed <= {*member.assigned, *member.pending_revocation}

    @invariant()
    def epochs_do_not_go_back(self) -> None:
        group = self.group()
        if not isinstance(group, ConsumerGroup):
            self.former = (None, 0, 0)
            return
        assert group.target_epoch <= group.epoch
        assert all(member.member_epoch <= group.target_epoch for member in group.members.values())
        if self.former[0] is group:
            assert (group.epoch, group.target_epoch) >= self.former[1:]
        self.former = (group, group.epoch, group.target_epoch)

    @invariant()
    def log_tells_everything(self) -> None:
        group = self.group()
        replayed = self.runtime.restarted().groups.shards.hosted(0).groups.get(GROUP)
        assert type(replayed) is type(group)
        if isinstance(group, ConsumerGroup) and isinstance(replayed, ConsumerGroup):
            assert durable(replayed) == durable(group)

    def teardown(self) -> None:
        if hasattr(self, "runtime"):
            self.calm()


def check(machine: ConsumerGroupMachine) -> None:
    machine.no_partition_has_two_owners()
    machine.epochs_do_not_go_back()
    machine.log_tells_everything()


def test_promises_hold_when_the_topic_of_a_classic_member_goes_before_the_upgrade() -> None:
    machine = ConsumerGroupMachine()
    machine.start(new=0, old=1)
    machine.topics_change("orders", 0)
    machine.static_client_restarts(says_goodbye=False)
    assert isinstance(machine.group(), ConsumerGroup)
    check(machine)
    machine.calm()
    assert machine.old[0].owned == set()


def test_promises_hold_when_the_topic_of_a_classic_member_goes_before_the_downgrade() -> None:
    machine = ConsumerGroupMachine()
    machine.start(new=1, old=1)
    machine.topics_change("orders", 0)
    machine.time_passes(6_000)
    machine.old_client_beats(0, is_lost=True)
    machine.time_passes(6_000)
    assert isinstance(machine.group(), ClassicGroup)
    machine.static_client_restarts(says_goodbye=False)
    assert isinstance(machine.group(), ConsumerGroup)
    check(machine)
    machine.calm()
    assert machine.old[0].owned == set()


def test_classic_member_gets_its_share_when_its_second_join_was_not_written() -> None:
    machine = ConsumerGroupMachine()
    machine.start(new=3, old=0)
    machine.topics_change("items", 1)
    machine.old_client_joins(1, {"items"})
    machine.next_append_fails(ErrorCode.KAFKA_STORAGE_ERROR)
    machine.old_client_joins(1, {"orders", "users"})
    machine.coordinator_restarts()
    check(machine)
    machine.calm()


ConsumerGroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestConsumerGroups = ConsumerGroupMachine.TestCase
