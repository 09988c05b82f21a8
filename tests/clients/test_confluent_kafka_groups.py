"""confluent-kafka (librdkafka): consumer groups."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from tests.clients.confluent import (
    admin_of,
    assigned,
    consumer_of,
    create_topic,
    poll_until,
    produce,
    producer_of,
    read,
    values,
)
from tests.clients.conftest import RunningBroker
from tests.clients.support import PATIENCE_S, STEADY_MEMBER, eventually, new_name

PARTITIONS = 6
ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]

Join = Callable[..., Consumer]

# A member of its own process, so that it can end without a word to the coordinator.
_MEMBER_PROCESS = """
import sys
from confluent_kafka import Consumer
servers, group, topic, session_timeout_ms, instance = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": servers, "group.id": group, "session.timeout.ms": int(session_timeout_ms),
    "heartbeat.interval.ms": int(session_timeout_ms) // 4, "log_level": 0,
    **({"group.instance.id": instance} if instance else {}),
})
consumer.subscribe([topic])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
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

        def joined(**config: Any) -> Consumer:
            member = consumer_of(group_broker.bootstrap_servers, group_id=group, **(STEADY_MEMBER | config))
            consumer = stack.enter_context(member)
            consumer.subscribe([topic])
            return consumer

        yield joined


def is_shared(*members: Consumer) -> Callable[[], bool]:
    """Every partition has exactly one owner, and nobody has more than one above the fair share."""

    def look() -> bool:
        counts = [len(assigned(member)) for member in members]
        owned = set().union(*(assigned(member) for member in members))
        return sum(counts) == len(owned) == PARTITIONS and max(counts) <= -(-PARTITIONS // len(members))

    return look


class TestMembers:
    @pytest.mark.parametrize("assignor", ASSIGNORS)
    def test_partitions_are_shared_when_members_come_and_go(self, join: Join, assignor: str) -> None:
        first = join(partition_assignment_strategy=assignor)
        poll_until([first], is_shared(first), "one member owns everything")
        second = join(partition_assignment_strategy=assignor)
        poll_until([first, second], is_shared(first, second), "two members share")
        third = join(partition_assignment_strategy=assignor)
        poll_until([first, second, third], is_shared(first, second, third), "three members share")
        third.close()
        poll_until([first, second], is_shared(first, second), "two members share again")

    def test_kept_partitions_are_not_revoked_when_the_protocol_is_cooperative(self, join: Join, topic: str) -> None:
        first = join(partition_assignment_strategy="cooperative-sticky")
        revoked: list[int] = []
        first.subscribe([topic], on_revoke=lambda _, gone: revoked.extend(one.partition for one in gone))
        poll_until([first], is_shared(first), "one member owns everything")
        second = join(partition_assignment_strategy="cooperative-sticky")
        poll_until([first, second], is_shared(first, second), "two members share")
        assert sorted(revoked) == sorted(partition for _, partition in assigned(second))

    def test_every_record_reaches_one_member_when_three_read_together(
        self, servers: str, join: Join, topic: str
    ) -> None:
        members = [join() for _ in range(3)]
        poll_until(members, is_shared(*members), "three members share")
        sent = {b"%d" % number for number in range(300)}
        produce(producer_of(servers), topic, sent)
        found: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < len(sent) and time.monotonic() < deadline:
            for member in members:
                found += values(member.consume(100, timeout=0.05))
        assert len(found) == len(sent)
        assert set(found) == sent

    def test_members_are_refused_when_they_have_no_assignor_in_common(self, join: Join) -> None:
        first = join(partition_assignment_strategy="range")
        poll_until([first], is_shared(first), "one member owns everything")
        errors: list[int] = []
        other = join(partition_assignment_strategy="roundrobin")

        def is_refused() -> bool:
            message = other.poll(0.05)
            error = None if message is None else message.error()
            if error is not None:
                errors.append(error.code())
            return KafkaError.INCONSISTENT_GROUP_PROTOCOL in errors

        eventually(is_refused, "the second member is refused")

    def test_two_groups_both_read_everything_when_on_one_topic(self, servers: str, topic: str) -> None:
        produce(producer_of(servers), topic, [b"x"] * 10)
        for _ in range(2):
            with consumer_of(servers) as consumer:
                consumer.subscribe([topic])
                assert len(read(consumer, 10)) == 10


class TestCrashes:
    @pytest.fixture
    def crash_member(self, group_broker: RunningBroker, group: str, topic: str) -> Iterator[Callable[..., Any]]:
        processes: list[subprocess.Popen[str]] = []

        def start(instance: str = "") -> subprocess.Popen[str]:
            timeout_ms = str(group_broker.session_timeout_ms)
            arguments = [group_broker.bootstrap_servers, group, topic, timeout_ms, instance]
            process = subprocess.Popen(
                [sys.executable, "-c", _MEMBER_PROCESS, *arguments], stdout=subprocess.PIPE, text=True
            )
            processes.append(process)
            return process

        yield start
        for process in processes:
            process.kill()
            process.communicate()

    @staticmethod
    def wait_for_count(process: subprocess.Popen[str], count: int) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == count:
                return
        raise AssertionError("the member's process ended early")

    def test_partitions_go_to_the_others_when_a_member_crashes(
        self, join: Join, crash_member: Callable[..., Any]
    ) -> None:
        other = join()
        poll_until([other], is_shared(other), "the member owns everything")
        process = crash_member()
        poll_until([other], lambda: len(assigned(other)) == PARTITIONS // 2, "two members share")
        process.kill()
        poll_until([other], is_shared(other), "the other member owns everything")

    def test_static_member_gets_its_partitions_back_when_it_returns_in_time(
        self, servers: str, group: str, topic: str
    ) -> None:
        def member(instance: str) -> Any:
            return consumer_of(
                servers,
                group_id=group,
                group_instance_id=instance,
                session_timeout_ms=120_000,
                heartbeat_interval_ms=200,
            )

        revoked: list[Any] = []
        with member("one") as one:
            one.subscribe([topic], on_revoke=lambda _, gone: revoked.append(gone))
            with member("two") as two:
                two.subscribe([topic])
                poll_until([one, two], is_shared(one, two), "both share")
                before = assigned(two)
                revoked.clear()
            # The restart of a static member is no rebalance: the first one keeps reading all the while.
            with member("two") as two:
                two.subscribe([topic])
                poll_until([one, two], lambda: assigned(two) == before, "the second has its partitions back")
            assert revoked == []

    def test_static_member_is_fenced_when_another_takes_its_name(self, servers: str, group: str, topic: str) -> None:
        def member() -> Any:
            return consumer_of(
                servers, group_id=group, group_instance_id="same", session_timeout_ms=60_000, heartbeat_interval_ms=100
            )

        with member() as old, member() as new:
            old.subscribe([topic])
            poll_until([old], lambda: len(assigned(old)) == PARTITIONS, "the first owns everything")
            new.subscribe([topic])
            poll_until([new], lambda: len(assigned(new)) == PARTITIONS, "the second owns everything")

            def is_fenced() -> bool:
                message = old.poll(0.1)
                return message is not None and message.error().code() in (
                    KafkaError.FENCED_INSTANCE_ID,
                    KafkaError._FATAL,
                )

            eventually(is_fenced, "the first is told")


class TestOffsets:
    def test_reading_goes_on_after_the_commit_when_a_member_returns(self, servers: str, group: str) -> None:
        topic = create_topic(servers)
        produce(producer_of(servers), topic, [b"%d" % number for number in range(10)])
        with consumer_of(servers, group_id=group) as consumer:
            consumer.subscribe([topic])
            messages = read(consumer, 4)
            consumer.commit(message=messages[-1], asynchronous=False)
        with consumer_of(servers, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert read(consumer, 1)[0].value() == b"4"

    def test_offset_and_metadata_come_back_when_committed(self, servers: str, group: str, topic: str) -> None:
        with consumer_of(servers, group_id=group) as consumer:
            offsets = [TopicPartition(topic, 0, 42, "half of it; ümlaut"), TopicPartition(topic, 1, 7)]
            consumer.commit(offsets=offsets, asynchronous=False)
            asked = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 2)]
            first, second, third = consumer.committed(asked, timeout=PATIENCE_S)
        assert (first.offset, first.metadata) == (42, "half of it; ümlaut")
        assert (second.offset, second.metadata or "") == (7, "")
        assert third.offset < 0

    def test_commit_is_refused_when_its_metadata_is_too_long(self, servers: str, group: str, topic: str) -> None:
        with consumer_of(servers, group_id=group) as consumer, pytest.raises(KafkaException) as caught:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1, "x" * 4_097)], asynchronous=False)
        assert caught.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE

    def test_offsets_are_committed_by_themselves_when_auto_commit_is_on(self, servers: str, group: str) -> None:
        topic = create_topic(servers)
        produce(producer_of(servers), topic, [b"x"] * 5)
        with (
            consumer_of(servers, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=100) as consumer,
            consumer_of(servers, group_id=group) as watcher,
        ):
            consumer.subscribe([topic])
            read(consumer, 5)

            def is_committed() -> bool:
                consumer.poll(0.02)
                (found,) = watcher.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
                return bool(found.offset == 5)

            eventually(is_committed, "the automatic commit")

    def test_offsets_are_committed_at_the_end_when_auto_commit_is_on(self, servers: str, group: str) -> None:
        topic = create_topic(servers)
        produce(producer_of(servers), topic, [b"x"] * 5)
        with consumer_of(servers, group_id=group, enable_auto_commit=True) as consumer:
            consumer.subscribe([topic])
            read(consumer, 5)
        with consumer_of(servers, group_id=group) as watcher:
            (found,) = watcher.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
        assert found.offset == 5

    def test_commit_of_a_member_is_fenced_when_the_group_went_on_without_it(
        self, join: Join, group_broker: RunningBroker, topic: str
    ) -> None:
        """A member that stops polling leaves the group by itself (max.poll.interval.ms) and may not commit any more."""
        timeout_ms = group_broker.session_timeout_ms
        sleepy = join(max_poll_interval_ms=timeout_ms, session_timeout_ms=timeout_ms)  # which may not be the longer
        poll_until([sleepy], is_shared(sleepy), "the member owns everything")
        other = join()
        poll_until([other], is_shared(other), "the other member owns everything")
        with pytest.raises(KafkaException) as caught:
            sleepy.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        codes = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError._STATE}
        assert caught.value.args[0].code() in codes


class TestSubscriptions:
    def test_new_topic_is_read_when_its_name_matches_the_pattern(self, servers: str) -> None:
        stem = new_name("pattern")
        producer = producer_of(servers)
        produce(producer, create_topic(servers, name=f"{stem}.one"), [b"one"])
        produce(producer, create_topic(servers, name=f"other-{stem}.one"), [b"other"])
        with consumer_of(servers, topic_metadata_refresh_interval_ms=100) as consumer:
            consumer.subscribe([f"^{stem}\\..*"])
            assert read(consumer, 1)[0].value() == b"one"
            produce(producer, create_topic(servers, name=f"{stem}.two"), [b"two"])
            # What was read and not committed comes again with the new assignment.
            eventually(lambda: b"two" in values(consumer.consume(10, timeout=0.1)), "the new topic's record")
            assert {name for name, _ in assigned(consumer)} == {f"{stem}.one", f"{stem}.two"}

    def test_new_partitions_are_read_when_a_topic_grows(self, servers: str) -> None:
        from confluent_kafka.admin import NewPartitions

        topic = create_topic(servers)
        with consumer_of(servers, topic_metadata_refresh_interval_ms=100) as consumer:
            consumer.subscribe([topic])
            poll_until([consumer], lambda: assigned(consumer) == {(topic, 0)}, "the first partition")
            admin_of(servers).create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
            poll_until([consumer], lambda: len(assigned(consumer)) == 3, "all three partitions")


class TestAdministration:
    def test_group_is_described_with_its_members_when_it_has_some(
        self, servers: str, group: str, topic: str, join: Join
    ) -> None:
        member = join(client_id="the-member")
        poll_until([member], is_shared(member), "the member owns everything")
        described = admin_of(servers).describe_consumer_groups([group])[group].result(PATIENCE_S)
        assert described.state.name == "STABLE"
        (found,) = described.members
        assert found.client_id == "the-member"
        assert {(one.topic, one.partition) for one in found.assignment.topic_partitions} == assigned(member)
        listed = admin_of(servers).list_consumer_groups().result(PATIENCE_S)
        assert group in {one.group_id for one in listed.valid}

    def test_offsets_change_when_altered_from_outside(self, servers: str, group: str, topic: str) -> None:
        admin = admin_of(servers)
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 3, 99)])
        admin.alter_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
        asked = [ConsumerGroupTopicPartitions(group)]
        found = admin.list_consumer_group_offsets(asked)[group].result(PATIENCE_S)
        assert [(one.topic, one.partition, one.offset) for one in found.topic_partitions] == [(topic, 3, 99)]

    def test_offsets_cannot_be_altered_when_the_group_has_members(
        self, servers: str, group: str, topic: str, join: Join
    ) -> None:
        member = join()
        poll_until([member], is_shared(member), "the member owns everything")
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 3, 99)])
        result = admin_of(servers).alter_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
        assert result.topic_partitions[0].error.code() == KafkaError.UNKNOWN_MEMBER_ID

    def test_group_is_deleted_only_when_it_is_empty(self, servers: str, group: str, join: Join) -> None:
        admin = admin_of(servers)
        member = join()
        poll_until([member], is_shared(member), "the member owns everything")
        with pytest.raises(KafkaException) as caught:
            admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
        assert caught.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
        member.close()
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
        with pytest.raises(KafkaException) as caught:
            admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
        assert caught.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
