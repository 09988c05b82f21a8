"""confluent-kafka (librdkafka) with `group.protocol=consumer` (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import NewPartitions

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.groups.records import consumer_groups as consumer_records
from penstock.groups.records.consumer_offsets import decode_record
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
from tests.clients.support import PATIENCE_S, new_name

PARTITIONS = 6

Join = Callable[..., Consumer]


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
def join(servers: str, group: str, topic: str) -> Iterator[Join]:
    """A new member of the test's group, subscribed to the test's topic."""
    with ExitStack() as stack:

        def joined(*topics: str, **config: Any) -> Consumer:
            settings = {"group_id": group, "group_protocol": "consumer", **config}
            consumer = stack.enter_context(consumer_of(servers, **settings))
            consumer.subscribe(list(topics) or [topic])
            return consumer

        yield joined


def share(*consumers: Consumer) -> None:
    """Until all partitions are assigned, as evenly as can be."""

    def is_done() -> bool:
        shares = [assigned(consumer) for consumer in consumers]
        sizes = [len(each) for each in shares]
        return len(set().union(*shares)) == sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1

    poll_until(consumers, is_done, "an even assignment")


def test_records_are_read_and_committed_when_a_member_is_alone(
    servers: str, topic: str, group: str, join: Join
) -> None:
    produce(producer_of(servers), topic, [b"1", b"2", b"3"], partition=0)
    member = join()
    assert values(read(member, 3)) == [b"1", b"2", b"3"]
    member.commit(asynchronous=False)
    (committed,) = member.committed([TopicPartition(topic, 0)], PATIENCE_S)
    assert committed.offset == 3
    member.close()
    produce(producer_of(servers), topic, [b"4"], partition=0)
    assert values(read(join(), 1)) == [b"4"]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_are_shared_when_members_come_and_go(join: Join, assignor: str) -> None:
    first = join(group_remote_assignor=assignor)
    share(first)
    second, third = join(group_remote_assignor=assignor), join(group_remote_assignor=assignor)
    share(first, second, third)
    second.close()
    share(first, third)


def test_topics_are_found_when_they_match_an_expression(servers: str, topic: str, join: Join) -> None:
    member = join(f"^{topic[:-3]}...$")
    poll_until([member], lambda: len(assigned(member)) == PARTITIONS, "the expression's assignment")


def test_new_partitions_are_assigned_when_a_topic_gets_some(servers: str, topic: str, join: Join) -> None:
    member = join()
    share(member)
    admin_of(servers).create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result(PATIENCE_S)
    poll_until([member], lambda: len(assigned(member)) == PARTITIONS + 2, "the new partitions' assignment")


def test_partitions_stay_when_a_static_member_restarts(join: Join) -> None:
    first, second = join(group_instance_id="one"), join(group_instance_id="two")
    share(first, second)
    kept, other = assigned(first), assigned(second)
    first.close()
    again = join(group_instance_id="one")
    poll_until([again, second], lambda: bool(assigned(again)), "the assignment of the member that is back")
    assert assigned(again) == kept
    assert assigned(second) == other


def test_group_is_migrated_when_its_members_change_their_protocol(servers: str, topic: str, join: Join) -> None:
    old = join(group_protocol="classic", partition_assignment_strategy="cooperative-sticky")
    share(old)
    new = join()
    share(old, new)
    old.close()
    share(new)
    back = join(group_protocol="classic", partition_assignment_strategy="cooperative-sticky")
    share(new, back)
    new.close()
    share(back)


def test_group_is_described_when_an_administrator_asks(servers: str, topic: str, group: str, join: Join) -> None:
    member = join(client_id="reader")
    share(member)
    described = admin_of(servers).describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.state is ConsumerGroupState.STABLE
    assert described.type is ConsumerGroupType.CONSUMER
    (one,) = described.members
    assert one.client_id == "reader"
    assert {(each.topic, each.partition) for each in one.assignment.topic_partitions} == assigned(member)
    listed = admin_of(servers).list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(PATIENCE_S).valid
    assert group in {each.group_id for each in listed}
    member.close()
    admin_of(servers).delete_consumer_groups([group])[group].result(PATIENCE_S)


def test_records_of_the_group_are_kafkas_when_they_are_read_back(
    servers: str, topic: str, group: str, join: Join
) -> None:
    """Whatever broker wrote them, we read them and write the same bytes again."""
    member = join(group_instance_id="one")
    share(member)
    kinds: set[int] = set()
    with consumer_of(servers) as reader:
        partitions = (
            admin_of(servers).list_topics("__consumer_offsets", PATIENCE_S).topics["__consumer_offsets"].partitions
        )
        reader.assign([TopicPartition("__consumer_offsets", index, 0) for index in partitions])
        while not kinds >= {3, 5, 6, 7, 8}:
            (message,) = read(reader, 1)
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            change = decode_record(key, value)
            if getattr(change, "group_id", None) == group:
                kinds.add(int.from_bytes(key[:2], "big"))
                assert encode(change) == CoordinatorRecord(key, value)


def encode(change: Any) -> CoordinatorRecord:
    encoders: dict[type, Callable[..., CoordinatorRecord]] = {
        consumer_records.ConsumerGroupChange: consumer_records.encode_consumer_group,
        consumer_records.SubscriptionChange: consumer_records.encode_subscription,
        consumer_records.TargetEpochChange: consumer_records.encode_target_epoch,
        consumer_records.TargetChange: consumer_records.encode_target,
        consumer_records.AssignmentChange: consumer_records.encode_assignment,
    }
    return encoders[type(change)](*change)
