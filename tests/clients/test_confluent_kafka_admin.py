"""confluent-kafka (librdkafka): administration."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.confluent import admin_of, consumer_of, create_topic, produce, producer_of, read
from tests.clients.conftest import RunningBroker
from tests.clients.support import PATIENCE_S, eventually, new_name


@pytest.fixture
def servers(broker: RunningBroker) -> str:
    return broker.bootstrap_servers


def result_of(futures: Any) -> Any:
    """Of a call that was about one thing."""
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def refused_with(futures: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        result_of(futures)
    code: int = caught.value.args[0].code()
    return code


def configs_of(servers: str, topic: str) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = result_of(
        admin_of(servers).describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    )
    return found


def alter(servers: str, topic: str, operation: AlterConfigOpType, name: str, value: str | None) -> Any:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    return admin_of(servers).incremental_alter_configs([resource])


class TestTopics:
    def test_topic_is_listed_with_its_partitions_when_created(self, servers: str) -> None:
        topic = create_topic(servers, partitions=3)
        found = admin_of(servers).list_topics(timeout=PATIENCE_S).topics[topic]
        assert sorted(found.partitions) == [0, 1, 2]
        assert all(one.leader in one.replicas and one.isrs == one.replicas for one in found.partitions.values())

    def test_topic_is_described_with_its_id_when_asked_by_name(self, servers: str) -> None:
        topic = create_topic(servers, partitions=2)
        described = result_of(admin_of(servers).describe_topics(TopicCollection([topic])))
        assert described.name == topic
        assert len(described.partitions) == 2
        assert described.topic_id.get_most_significant_bits() != 0
        assert not described.is_internal

    def test_topic_is_gone_when_deleted(self, servers: str) -> None:
        topic = create_topic(servers)
        admin = admin_of(servers)
        result_of(admin.delete_topics([topic]))
        eventually(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics, "the topic goes")
        assert refused_with(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_topic_is_empty_when_deleted_and_created_again(self, servers: str) -> None:
        topic = create_topic(servers)
        produce(producer_of(servers), topic, [b"old"])
        result_of(admin_of(servers).delete_topics([topic]))
        create_topic(servers, name=topic)
        with consumer_of(servers) as consumer:
            assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S) == (0, 0)

    @pytest.mark.parametrize(
        ("topic", "code"),
        [
            (NewTopic("no-partitions", num_partitions=0, replication_factor=1), KafkaError.INVALID_PARTITIONS),
            (NewTopic("two-replicas", num_partitions=1, replication_factor=5), KafkaError.INVALID_REPLICATION_FACTOR),
            (
                NewTopic("bad-config", num_partitions=1, replication_factor=1, config={"retention.ms": "soon"}),
                KafkaError.INVALID_CONFIG,
            ),
            (
                NewTopic("no-config", num_partitions=1, replication_factor=1, config={"no.such.key": "1"}),
                KafkaError.INVALID_CONFIG,
            ),
        ],
    )
    def test_topic_is_refused_when_it_makes_no_sense(self, servers: str, topic: NewTopic, code: int) -> None:
        assert refused_with(admin_of(servers).create_topics([topic])) == code

    def test_topic_is_refused_when_it_exists(self, servers: str) -> None:
        topic = create_topic(servers)
        again = NewTopic(topic, num_partitions=1, replication_factor=1)
        assert refused_with(admin_of(servers).create_topics([again])) == KafkaError.TOPIC_ALREADY_EXISTS

    def test_nothing_happens_when_only_validated(self, servers: str) -> None:
        topic = new_name("validated")
        admin = admin_of(servers)
        result_of(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
        assert topic not in admin.list_topics(timeout=PATIENCE_S).topics

    def test_topic_grows_when_partitions_are_added(self, servers: str) -> None:
        topic = create_topic(servers, partitions=2)
        admin = admin_of(servers)
        result_of(admin.create_partitions([NewPartitions(topic, 5)]))
        (report,) = produce(producer_of(servers), topic, [b"x"], partition=4)
        assert report.partition() == 4
        assert refused_with(admin.create_partitions([NewPartitions(topic, 3)])) == KafkaError.INVALID_PARTITIONS

    def test_records_are_gone_when_deleted_up_to_an_offset(self, servers: str) -> None:
        topic = create_topic(servers)
        produce(producer_of(servers), topic, [b"%d" % number for number in range(10)])
        admin = admin_of(servers)
        deleted = result_of(admin.delete_records([TopicPartition(topic, 0, 6)]))
        assert deleted.low_watermark == 6
        with consumer_of(servers) as consumer:
            assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S) == (6, 10)
            consumer.assign([TopicPartition(topic, 0, 0)])
            assert read(consumer, 1)[0].value() == b"6"
        assert refused_with(admin.delete_records([TopicPartition(topic, 0, 11)])) == KafkaError.OFFSET_OUT_OF_RANGE

    def test_offsets_are_listed_by_every_specification(self, servers: str) -> None:
        topic = create_topic(servers)
        producer = producer_of(servers)
        for number, timestamp in enumerate((1_000, 5_000, 3_000)):
            produce(producer, topic, [b"%d" % number], timestamp=timestamp)
        found = {}
        for name, spec in {
            "earliest": OffsetSpec.earliest(),
            "latest": OffsetSpec.latest(),
            "newest": OffsetSpec.max_timestamp(),
            "at": OffsetSpec.for_timestamp(2_000),
        }.items():
            asked = admin_of(servers).list_offsets(
                {TopicPartition(topic, 0): spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED
            )
            found[name] = result_of(asked).offset
        assert found == {"earliest": 0, "latest": 3, "newest": 1, "at": 1}


class TestConfigs:
    def test_config_says_where_it_comes_from_when_described(self, servers: str) -> None:
        topic = create_topic(servers, config={"retention.ms": "86400000"})
        configs = configs_of(servers, topic)
        assert configs["retention.ms"].value == "86400000"
        assert ConfigSource(configs["retention.ms"].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
        assert configs["cleanup.policy"].value == "delete"
        assert configs["cleanup.policy"].is_default

    def test_one_value_changes_when_altered_incrementally(self, servers: str) -> None:
        topic = create_topic(servers, config={"retention.ms": "86400000"})
        result_of(alter(servers, topic, AlterConfigOpType.SET, "max.message.bytes", "2000"))
        configs = configs_of(servers, topic)
        assert (configs["max.message.bytes"].value, configs["retention.ms"].value) == ("2000", "86400000")
        result_of(alter(servers, topic, AlterConfigOpType.DELETE, "retention.ms", None))
        assert configs_of(servers, topic)["retention.ms"].is_default

    def test_group_has_a_value_of_its_own_when_altered(self, servers: str) -> None:
        group, key = new_name("group"), "consumer.session.timeout.ms"
        entry = ConfigEntry(key, "50000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        result_of(admin_of(servers).incremental_alter_configs([resource]))
        configs = result_of(admin_of(servers).describe_configs([ConfigResource(ResourceType.GROUP, group)]))
        assert (configs[key].value, ConfigSource(configs[key].source)) == ("50000", ConfigSource.GROUP_CONFIG)
        assert configs["consumer.heartbeat.interval.ms"].is_default

    def test_list_grows_and_shrinks_when_appended_to_and_subtracted_from(self, servers: str) -> None:
        topic = create_topic(servers)
        result_of(alter(servers, topic, AlterConfigOpType.APPEND, "cleanup.policy", "compact"))
        assert configs_of(servers, topic)["cleanup.policy"].value == "delete,compact"
        result_of(alter(servers, topic, AlterConfigOpType.SUBTRACT, "cleanup.policy", "delete"))
        assert configs_of(servers, topic)["cleanup.policy"].value == "compact"

    @pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
    def test_other_values_return_to_default_when_altered_as_a_whole(self, servers: str) -> None:
        topic = create_topic(servers, config={"retention.ms": "86400000"})
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "2000000"})
        result_of(admin_of(servers).alter_configs([resource]))
        configs = configs_of(servers, topic)
        assert configs["segment.bytes"].value == "2000000"
        assert configs["retention.ms"].is_default

    def test_new_limit_counts_at_once_when_altered(self, servers: str) -> None:
        topic = create_topic(servers)
        producer = producer_of(servers)
        produce(producer, topic, [b"x" * 5_000])
        result_of(alter(servers, topic, AlterConfigOpType.SET, "max.message.bytes", "1000"))
        with pytest.raises(KafkaException) as caught:
            produce(producer, topic, [b"x" * 5_000])
        assert caught.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

    @pytest.mark.parametrize(("name", "value"), [("retention.ms", "soon"), ("cleanup.policy", "burn"), ("no.key", "1")])
    def test_value_is_refused_when_it_is_invalid(self, servers: str, name: str, value: str) -> None:
        topic = create_topic(servers)
        assert refused_with(alter(servers, topic, AlterConfigOpType.SET, name, value)) == KafkaError.INVALID_CONFIG

    def test_configs_are_refused_when_the_topic_is_unknown(self, servers: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, new_name("missing"))
        assert refused_with(admin_of(servers).describe_configs([resource])) == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_broker_is_described_with_its_configs_when_asked(self, servers: str) -> None:
        admin = admin_of(servers)
        (node,) = admin.list_topics(timeout=PATIENCE_S).brokers
        configs = result_of(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]))
        assert configs["log.dirs"].is_read_only
        assert not configs["log.retention.ms"].is_read_only


class TestCluster:
    def test_cluster_names_its_nodes_when_described(self, servers: str) -> None:
        described = admin_of(servers).describe_cluster().result(PATIENCE_S)
        assert described.cluster_id
        assert [f"{node.host}:{node.port}" for node in described.nodes] == [servers]
        assert described.controller.id == described.nodes[0].id
