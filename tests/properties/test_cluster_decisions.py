"""A controller's decisions over random histories: brokers come and go, cleanly or not, several at once or one by one;
leaders ask for in-sync changes, rightly or too late; clients create, delete, elect and move.

What must hold after each decision is what a cluster's promise rests on: records that every in-sync replica has are not
lost, and whoever looks at two states of a partition can tell the newer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.cluster.decisions.brokers import decide_registered
from penstock.cluster.decisions.decision import NewPartitions, NewTopic, TopicSelector
from penstock.cluster.decisions.elections import ElectionType, decide_balance, decide_elections
from penstock.cluster.decisions.partitions import decide_alter_partition
from penstock.cluster.decisions.reassignments import ReassignmentRequest, decide_reassignments
from penstock.cluster.decisions.shutdown import decide_shutdown
from penstock.cluster.decisions.topics import (
    Choices,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from penstock.cluster.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionState, TopicImage
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.replication.changes import InSyncChange

NODES = st.integers(1, 4)
# The second one allows unclean elections.
NAMES = st.sampled_from(["safe", "unclean"])
CONFIG = BrokerConfig.parse({})


def may_be_unclean(topic: TopicImage) -> bool:
    return topic.name == "unclean"


class Cluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.image = MetadataImage("cluster", controller_id=1, controller_epoch=1)
        # What stands in the store. The controller learns of it in `observe`, so it may miss what happened between.
        self.registered: dict[int, BrokerRegistration] = {}
        self.clean_marks: dict[int, int] = {}
        self.last_epoch = 0
        random = Random(0)
        self.choices = Choices(random, lambda: random.randbytes(16))

    @initialize(count=st.integers(1, 4), factor=st.integers(1, 3))
    def found(self, count: int, factor: int) -> None:
        """A cluster at work, because random steps seldom make one."""
        for node in range(1, count + 1):
            self.start(node)
        self.observe()
        for name in ("safe", "unclean"):
            self.create(name, 2, min(factor, count))

    # ------------------------------------------------------------------------------------------------ brokers

    @rule(node=NODES)
    def start(self, node: int) -> None:
        if node not in self.registered:
            self.last_epoch += 1
            mark = self.clean_marks.pop(node, -1)
            self.registered[node] = BrokerRegistration(node, (), None, self.last_epoch, mark)

    @rule(node=NODES, is_clean=st.booleans())
    def end(self, node: int, is_clean: bool) -> None:
        broker = self.registered.pop(node, None)
        if broker is not None and is_clean:
            self.clean_marks[node] = broker.epoch

    @rule(node=NODES, is_clean=st.booleans())
    def bounce(self, node: int, is_clean: bool) -> None:
        self.end(node, is_clean)
        self.start(node)

    @rule()
    def observe(self) -> None:
        decision = decide_registered(self.image, self.registered, may_be_unclean)
        for topic, state in self.states():
            self.check_returned(topic, state, decision.image.topics[topic.name].partitions[state.partition])
        self.apply(decision.image)
        assert {node: broker.epoch for node, broker in self.image.brokers.items()} == {
            node: broker.epoch for node, broker in self.registered.items()
        }
        assert decide_registered(self.image, self.registered, may_be_unclean).image is self.image
        for topic, state in self.states():
            if may_be_unclean(topic) and state.leader == NO_LEADER:
                assert not set(state.replicas) & set(self.image.brokers)

    @precondition(lambda self: self.image.brokers)
    @rule(data=st.data())
    def begin_shutdown(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.image.brokers)))
        decision = decide_shutdown(self.image, node, self.image.brokers[node].epoch)
        self.apply(decision.image)
        assert self.image.brokers[node].is_stopping
        led = [state for _, state in self.states() if state.leader == node]
        staying = {each.node_id for each in self.image.brokers.values() if not each.is_stopping}
        assert decision.results == (sum(not staying.isdisjoint(state.replicas) for state in led),)
        assert all(state.isr == (node,) for state in led)

    # ------------------------------------------------------------------------------------------------ partitions

    @precondition(lambda self: self.image.topics)
    @rule(data=st.data())
    def alter_partition(self, data: st.DataObject) -> None:
        topic, state = data.draw(st.sampled_from(self.states()))
        # Mostly as a leader asks that knows everything, so that many changes are made.
        asker = data.draw(st.sampled_from([state.leader] * 5 + [1, 2, 3, 4]))
        if asker not in self.image.brokers:
            return
        members = data.draw(st.lists(st.sampled_from(state.replicas), unique=True))
        members += [asker] if asker not in members and data.draw(st.integers(0, 9)) else []
        lag = st.sampled_from([0] * 10 + [-1, 1])
        change = InSyncChange(
            topic.topic_id,
            state.partition,
            state.leader_epoch + data.draw(lag),
            state.partition_epoch + data.draw(lag),
            # The epoch in the store may be newer than the controller's, or gone.
            tuple((node, self.registered[node].epoch if node in self.registered else 0) for node in members),
        )
        decision = decide_alter_partition(self.image, asker, self.image.brokers[asker].epoch, [change])
        (result,) = decision.results
        is_made = result.code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
        assert is_made or decision.image is self.image
        if is_made:
            for node, epoch in change.isr:
                assert epoch == self.image.brokers[node].epoch
                assert node == asker or not self.image.brokers[node].is_stopping
            assert (asker, change.leader_epoch, change.partition_epoch) == (
                state.leader,
                state.leader_epoch,
                state.partition_epoch,
            )
            assert (result.code is ErrorCode.NONE) == (result.state is not None and result.state.leader == asker)
            assert result.state == decision.image.partition(topic.name, state.partition)
        self.apply(decision.image, attested=members if is_made else ())

    @rule(data=st.data(), election_type=st.sampled_from(ElectionType), is_all=st.booleans())
    def elect(self, data: st.DataObject, election_type: ElectionType, is_all: bool) -> None:
        known = [TopicPartition(topic.name, state.partition) for topic, state in self.states()]
        named = None if is_all or not known else data.draw(st.lists(st.sampled_from(known), max_size=3))
        decision = decide_elections(self.image, named, election_type)
        elected = {TopicPartition(*result[:2]) for result in decision.results if result.code is ErrorCode.NONE}
        for topic, partition in elected:
            before, after = self.image.partition(topic, partition), decision.image.partition(topic, partition)
            assert before is not None
            assert after is not None
            assert after.leader not in (before.leader, NO_LEADER)
        assert (decision.image is self.image) == (not elected)
        self.apply(decision.image, is_forced=election_type is ElectionType.UNCLEAN)

    @rule(percent=st.integers(0, 100))
    def balance(self, percent: int) -> None:
        self.apply(decide_balance(self.image, percent).image)

    @precondition(lambda self: self.image.topics)
    @rule(data=st.data(), nodes=st.none() | st.lists(NODES, min_size=1, max_size=4, unique=True))
    def reassign(self, data: st.DataObject, nodes: list[int] | None) -> None:
        topic, state = data.draw(st.sampled_from(self.states()))
        wanted = ReassignmentRequest(topic.name, state.partition, None if nodes is None else tuple(nodes))
        decision = decide_reassignments(self.image, [wanted], may_be_unclean)
        if decision.results[0].code is ErrorCode.NONE:
            after = decision.image.topics[topic.name].partitions[state.partition]
            remaining = tuple(node for node in after.replicas if node not in after.removing)
            if wanted.replicas is None:
                assert not after.adding
                assert set(after.replicas) == set(state.replicas) - set(state.adding)
            else:
                assert remaining == wanted.replicas
        else:
            assert decision.image is self.image
        self.apply(decision.image)

    # ------------------------------------------------------------------------------------------------ topics

    @rule(name=NAMES, count=st.integers(1, 4), factor=st.integers(1, 4))
    def create(self, name: str, count: int, factor: int) -> None:
        self.apply(decide_create_topics(self.image, CONFIG, [NewTopic(name, count, factor)], self.choices).image)

    @rule(name=NAMES, nodes=st.lists(NODES, min_size=1, max_size=4, unique=True))
    def create_by_hand(self, name: str, nodes: list[int]) -> None:
        wanted = NewTopic(name, assignments=((0, tuple(nodes)),))
        self.apply(decide_create_topics(self.image, CONFIG, [wanted], self.choices).image)

    @rule(name=NAMES, count=st.integers(1, 6))
    def grow(self, name: str, count: int) -> None:
        self.apply(decide_create_partitions(self.image, [NewPartitions(name, count)], self.choices).image)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.apply(decide_delete_topics(self.image, CONFIG.topics, [TopicSelector(name)]).image)

    # ------------------------------------------------------------------------------------------------ what must hold

    @invariant()
    def states_are_sound(self) -> None:
        brokers = self.image.brokers
        for _, state in self.states():
            assert state.isr
            assert len(set(state.isr)) == len(state.isr)
            stopping = {node for node in state.isr if node in brokers and brokers[node].is_stopping}
            assert not stopping or len(state.isr) == 1
            assert set(state.isr) <= set(state.replicas)
            assert len(set(state.replicas)) == len(state.replicas)
            assert set(state.adding) | set(state.removing) <= set(state.replicas)
            assert not set(state.adding) & set(state.removing)
            if state.adding or state.removing:
                assert set(state.replicas) - set(state.removing) - set(state.isr), "the reassignment is done"
            if state.leader == NO_LEADER:
                assert not set(state.isr) & set(brokers), "a live in-sync replica could lead"
            else:
                assert state.leader in state.isr
                assert set(state.isr) <= set(brokers)

    def states(self) -> list[tuple[TopicImage, PartitionState]]:
        return [(topic, state) for topic in self.image.topics.values() for state in topic.partitions]

    def apply(self, image: MetadataImage, *, attested: Sequence[int] = (), is_forced: bool = False) -> None:
        """`attested` are the brokers that the leader says are in sync; `is_forced` allows an unclean election."""
        before, self.image = self.image, image
        for name, topic in image.topics.items():
            old = before.topics.get(name)
            if old is None or old is topic or old.topic_id != topic.topic_id:
                continue
            assert old.partitions != topic.partitions, "a topic that stays is the same object"
            for was, now in zip(old.partitions, topic.partitions, strict=False):
                if was is not now:
                    self.check_step(was, now, attested, is_forced or may_be_unclean(topic))

    def check_returned(self, topic: TopicImage, was: PartitionState, now: PartitionState) -> None:
        """Whoever may have lost records leaves the set, as far as others remain."""
        known = self.image.brokers
        live = [node for node in was.isr if node in self.registered]
        back = [node for node in live if node in known]
        steady = {node for node in back if known[node].epoch == self.registered[node].epoch}
        unharmed = {node for node in back if known[node].epoch == self.registered[node].previous_epoch}
        if steady or unharmed:
            assert set(now.isr) == steady | unharmed
            if was.leader in now.isr and not known[was.leader].is_stopping:
                assert (now.leader, now.leader_epoch) == (was.leader, was.leader_epoch)
        elif live:
            assert now.isr == (now.leader,)
            assert now.leader_epoch == was.leader_epoch + 1
        elif not may_be_unclean(topic):
            assert (now.isr, now.leader) == (was.isr, NO_LEADER)

    def check_step(self, was: PartitionState, now: PartitionState, attested: Sequence[int], is_unclean: bool) -> None:
        assert now != was
        assert now.partition_epoch == was.partition_epoch + 1
        assert now.leader_epoch - was.leader_epoch in (0, 1)
        if now.leader != was.leader or set(was.replicas) - set(now.replicas):
            assert now.leader_epoch == was.leader_epoch + 1
        in_sync = {*was.isr, *attested}
        if is_unclean and not in_sync & set(self.image.brokers) & set(now.replicas):
            assert now.leader == NO_LEADER or now.isr == (now.leader,)
            return
        # Whoever leads or is in sync afterwards had every acknowledged record before.
        assert set(now.isr) <= in_sync
        assert now.leader == NO_LEADER or now.leader in in_sync


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=200, stateful_step_count=40)
