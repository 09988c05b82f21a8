"""kafka-python: consumer groups and administration."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import InvalidConfigurationError, NoError, TopicAlreadyExistsError

from tests.clients.conftest import RunningBroker
from tests.clients.kafka_python import admin_of, consumer_of, create_topic, poll_until, produce, read, values
from tests.clients.support import STEADY_MEMBER, eventually, new_name

PARTITIONS = 6
ASSIGNORS = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor]

Join = Callable[..., KafkaConsumer]

# A member of its own process, so that it can end without a word to the coordinator.
_MEMBER_PROCESS = """
import sys
from kafka import KafkaConsumer
servers, group, topic, session_timeout_ms = sys.argv[1:]
consumer = KafkaConsumer(
    topic, bootstrap_servers=servers, group_id=group, session_timeout_ms=int(session_timeout_ms),
    heartbeat_interval_ms=int(session_timeout_ms) // 5,
)
while True:
    consumer.poll(timeout_ms=100)
"""


@pytest.fixture
def servers(group_broker: RunningBroker) -> str:
    return group_broker.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    return create_topic(servers, partitions=PARTITIONS)


@pytest.fixture
def group() -> str:
    return new_name("group")


@pytest.fixture
def join(group_broker: RunningBroker, group: str, topic: str) -> Iterator[Join]:
    """A new member of the test's group, subscribed to the test's topic."""
    with ExitStack() as stack:

        def joined(*topics: str, **config: Any) -> KafkaConsumer:
            defaults = {"group_id": group, "max_poll_interval_ms": 60_000, **STEADY_MEMBER}
            member = consumer_of(group_broker.bootstrap_servers, *(topics or (topic,)), **(defaults | config))
            return stack.enter_context(member)

        yield joined


def is_shared(*members: KafkaConsumer) -> Callable[[], bool]:
    """Every partition has exactly one owner, and nobody has more than one above the fair share."""

    def look() -> bool:
        counts = [len(member.assignment()) for member in members]
        owned = set().union(*(member.assignment() for member in members))
        return sum(counts) == len(owned) == PARTITIONS and max(counts) <= -(-PARTITIONS // len(members))

    return look


class TestMembers:
    @pytest.mark.parametrize("assignor", ASSIGNORS)
    def test_partitions_are_shared_when_members_come_and_go(self, join: Join, assignor: type) -> None:
        first = join(partition_assignment_strategy=[assignor])
        poll_until([first], is_shared(first), "one member owns everything")
        second = join(partition_assignment_strategy=[assignor])
        poll_until([first, second], is_shared(first, second), "two members share")
        third = join(partition_assignment_strategy=[assignor])
        poll_until([first, second, third], is_shared(first, second, third), "three members share")
        third.close()
        poll_until([first, second], is_shared(first, second), "two members share again")

    def test_every_record_reaches_one_member_when_two_read_together(self, servers: str, join: Join, topic: str) -> None:
        members = [join(), join()]
        poll_until(members, is_shared(*members), "both share")
        sent = [b"%d" % number for number in range(100)]
        produce(servers, topic, sent)
        found: list[Any] = []

        def is_complete() -> bool:
            for member in members:
                for records in member.poll(timeout_ms=50).values():
                    found.extend(records)
            return len(found) >= len(sent)

        eventually(is_complete, "all records")
        assert sorted(values(found)) == sorted(sent)  # type: ignore[type-var]

    def test_partitions_go_to_the_others_when_a_member_crashes(
        self, group_broker: RunningBroker, join: Join, group: str, topic: str
    ) -> None:
        other = join()
        poll_until([other], is_shared(other), "the member owns everything")
        arguments = [group_broker.bootstrap_servers, group, topic, str(group_broker.session_timeout_ms)]
        process = subprocess.Popen([sys.executable, "-c", _MEMBER_PROCESS, *arguments])
        try:
            poll_until([other], lambda: len(other.assignment()) == PARTITIONS // 2, "two members share")
        finally:
            process.kill()
            process.wait()
        poll_until([other], is_shared(other), "the other member owns everything")

    def test_static_member_gets_its_partitions_back_when_it_returns_in_time(
        self, servers: str, topic: str, group: str
    ) -> None:
        revoked: list[set[TopicPartition]] = []

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, gone: set[TopicPartition]) -> None:
                revoked.append(gone)

            def on_partitions_assigned(self, given: set[TopicPartition]) -> None:
                pass

        def member(instance: str) -> Any:
            return consumer_of(
                servers,
                group_id=group,
                group_instance_id=instance,
                # Closing one consumer and making the next must fit in here, on a busy machine too.
                session_timeout_ms=120_000,
                heartbeat_interval_ms=200,
            )

        with member("one") as one:
            one.subscribe([topic], listener=Listener())
            with member("two") as two:
                two.subscribe([topic])
                poll_until([one, two], is_shared(one, two), "both share")
                before = two.assignment()
                revoked.clear()
            with member("two") as two:
                two.subscribe([topic])
                poll_until([one, two], lambda: two.assignment() == before, "the second has its partitions back")
            assert revoked == []

    def test_new_topic_is_read_when_its_name_matches_the_pattern(self, servers: str) -> None:
        stem = new_name("pattern")
        produce(servers, create_topic(servers, name=f"{stem}.one"), [b"one"])
        with consumer_of(servers, group_id=new_name("group"), metadata_max_age_ms=200) as consumer:
            consumer.subscribe(pattern=f"^{re.escape(stem)}.*")
            assert values(read(consumer, 1)) == [b"one"]
            consumer.commit()
            produce(servers, create_topic(servers, name=f"{stem}.two"), [b"two"])
            assert values(read(consumer, 1)) == [b"two"]


class TestOffsets:
    def test_reading_goes_on_after_the_commit_when_a_member_returns(self, servers: str, group: str) -> None:
        topic = create_topic(servers)
        produce(servers, topic, [b"%d" % number for number in range(10)])
        with consumer_of(servers, topic, group_id=group) as consumer:
            read(consumer, 4)
            consumer.commit()
        with consumer_of(servers, topic, group_id=group) as consumer:
            assert read(consumer, 1)[0].value == b"4"

    def test_offset_and_metadata_come_back_when_committed(self, servers: str, group: str, topic: str) -> None:
        where = TopicPartition(topic, 0)
        with consumer_of(servers, group_id=group) as consumer:
            consumer.assign([where])
            consumer.commit({where: OffsetAndMetadata(42, "half of it", -1)})
            found = consumer.committed(where, metadata=True)
            assert (found.offset, found.metadata) == (42, "half of it")
            assert consumer.committed(TopicPartition(topic, 1)) is None

    def test_offsets_are_committed_by_themselves_when_auto_commit_is_on(self, servers: str, group: str) -> None:
        topic = create_topic(servers)
        produce(servers, topic, [b"x"] * 5)
        where = TopicPartition(topic, 0)
        with consumer_of(
            servers, topic, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=100
        ) as consumer:
            read(consumer, 5)

            def is_committed() -> bool:
                consumer.poll(timeout_ms=50)
                return bool(consumer.committed(where) == 5)

            eventually(is_committed, "the automatic commit")


class TestAdministration:
    def test_controller_is_the_quorum_when_it_is_described(self, servers: str) -> None:
        with admin_of(servers) as admin:
            described = admin.describe_metadata_quorum()
            controller_id = admin.describe_cluster()["controller_id"]
        (topic,) = described["topics"]
        (partition,) = topic["partitions"]
        assert (topic["topic_name"], partition["error"]) == ("__cluster_metadata", None)
        assert partition["leader_id"] == controller_id
        assert [voter["replica_id"] for voter in partition["current_voters"]] == [controller_id]

    def test_topics_come_grow_and_go_when_told(self, servers: str) -> None:
        topic = create_topic(servers, partitions=2)
        with admin_of(servers) as admin:
            assert topic in admin.list_topics()
            with pytest.raises(TopicAlreadyExistsError):
                admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
            admin.create_partitions({topic: 4})
            (described,) = admin.describe_topics([topic])
            assert len(described["partitions"]) == 4
            admin.delete_topics([topic])
            eventually(lambda: topic not in admin.list_topics(), "the topic goes")

    def test_configs_change_when_altered(self, servers: str) -> None:
        topic = create_topic(servers, config={"retention.ms": "86400000"})
        with admin_of(servers) as admin:
            change = {"retention.ms": (AlterConfigOp.DELETE, None), "max.message.bytes": "2000"}
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=change)
            assert admin.alter_configs([resource])["topic"][topic] == "OK"
            asked = ConfigResource(ConfigResourceType.TOPIC, topic)
            found = admin.describe_configs([asked], config_filter="all")["topic"][topic]
            assert found["max.message.bytes"]["value"] == "2000"
            assert found["retention.ms"]["value"] == "604800000"

    def test_topic_is_refused_when_its_config_is_invalid(self, servers: str) -> None:
        with pytest.raises(InvalidConfigurationError):
            create_topic(servers, config={"retention.ms": "soon"})

    def test_records_are_gone_when_deleted_up_to_an_offset(self, servers: str) -> None:
        topic = create_topic(servers)
        produce(servers, topic, [b"%d" % number for number in range(10)])
        where = TopicPartition(topic, 0)
        with admin_of(servers) as admin:
            admin.delete_records({where: 6})
            found = admin.list_partition_offsets({where: OffsetSpec.EARLIEST})
            assert found[where].offset == 6

    def test_cluster_and_log_directories_are_described_when_asked(self, servers: str) -> None:
        topic = create_topic(servers)
        produce(servers, topic, [b"x" * 1_000])
        with admin_of(servers) as admin:
            cluster = admin.describe_cluster()
            assert [f"{one['host']}:{one['port']}" for one in cluster["brokers"]] == [servers]
            (broker,) = admin.describe_log_dirs()
            sizes = {
                (found["name"], partition["partition_index"]): partition["partition_size"]
                for directory in broker["log_dirs"]
                for found in directory["topics"]
                for partition in found["partitions"]
            }
            assert sizes[topic, 0] > 1_000

    def test_group_offsets_are_altered_reset_and_deleted_when_told(self, servers: str, group: str) -> None:
        topic = create_topic(servers)
        produce(servers, topic, [b"x"] * 10)
        where = TopicPartition(topic, 0)
        with admin_of(servers) as admin:
            assert admin.alter_group_offsets(group, {where: OffsetAndMetadata(7, "by hand", -1)})[where] is NoError
            assert admin.list_group_offsets(group)[group][where].offset == 7
            admin.reset_group_offsets(group, {where: OffsetSpec.EARLIEST})
            assert admin.list_group_offsets(group)[group][where].offset == 0
            assert admin.delete_group_offsets(group, [where])[where] is NoError
            assert where not in admin.list_group_offsets(group)[group]

    def test_group_is_listed_described_and_deleted_when_told(
        self, servers: str, group: str, topic: str, join: Join
    ) -> None:
        member = join(client_id="the-member")
        poll_until([member], is_shared(member), "the member owns everything")
        with admin_of(servers) as admin:
            assert group in {one["group_id"] for one in admin.list_groups()}
            described = admin.describe_groups([group])[group]
            assert described["group_state"] == "Stable"
            assert described["members"][0]["client_id"] == "the-member"
            assert admin.delete_groups([group])[group] != "OK"
            member.close()
            assert admin.delete_groups([group])[group] == "OK"
            assert group not in {one["group_id"] for one in admin.list_groups()}
