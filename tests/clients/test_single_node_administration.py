"""confluent-kafka and kafka-python: access rules, elections, reassignments, passwords and log levels of one broker.

The expectations were checked against Apache Kafka 4.3.1 without an authorizer.
"""

from __future__ import annotations

from typing import Any

import kafka.errors
import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as PythonResourceType

from tests.clients import confluent, kafka_python
from tests.clients.conftest import RunningBroker
from tests.clients.support import PATIENCE_S, new_name

RULE = AclBinding(
    ResourceType.TOPIC,
    "orders",
    ResourcePatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
ANYTHING: Any = None
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, ANYTHING, ResourcePatternType.ANY, ANYTHING, ANYTHING, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture
def servers(broker: RunningBroker) -> str:
    return broker.bootstrap_servers


def refusals(futures: dict[Any, Any]) -> list[int]:
    codes = []
    for future in futures.values():
        with pytest.raises(KafkaException) as caught:
            future.result(PATIENCE_S)
        codes.append(caught.value.args[0].code())
    return codes


class TestConfluentKafka:
    def test_security_is_disabled_when_access_rules_are_changed(self, servers: str) -> None:
        admin = confluent.admin_of(servers)
        assert refusals(admin.create_acls([RULE])) == [KafkaError.SECURITY_DISABLED]
        assert refusals(admin.delete_acls([EVERY_RULE])) == [KafkaError.SECURITY_DISABLED]

    def test_no_election_is_needed_when_the_only_replica_leads(self, servers: str) -> None:
        topic = confluent.create_topic(servers)
        admin = confluent.admin_of(servers)
        wanted = [TopicPartition(topic, 0), TopicPartition(topic, 7)]
        results = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(PATIENCE_S)
        assert {each.partition: error.code() for each, error in results.items()} == {
            0: KafkaError.ELECTION_NOT_NEEDED,
            7: KafkaError.UNKNOWN_TOPIC_OR_PART,
        }
        assert admin.elect_leaders(ElectionType.UNCLEAN, None).result(PATIENCE_S) == {}

    def test_no_user_has_a_password_when_credentials_are_described(self, servers: str) -> None:
        admin: Any = confluent.admin_of(servers)
        assert admin.describe_user_scram_credentials().result(PATIENCE_S) == {}
        named = admin.describe_user_scram_credentials(["alice"])
        assert refusals(named) == [KafkaError.RESOURCE_NOT_FOUND]


class TestKafkaPython:
    def test_security_is_disabled_when_access_rules_are_described(self, servers: str) -> None:
        pattern = ResourcePatternFilter(PythonResourceType.ANY, None, ACLResourcePatternType.ANY)
        wanted = ACLFilter(None, "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
        with kafka_python.admin_of(servers) as admin, pytest.raises(kafka.errors.SecurityDisabledError):
            admin.describe_acls(wanted)

    def test_reassignment_succeeds_when_the_replicas_stay(self, servers: str) -> None:
        topic = kafka_python.create_topic(servers)
        partition = kafka.TopicPartition(topic, 0)
        with kafka_python.admin_of(servers) as admin:
            (node,) = (broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
            assert admin.alter_partition_reassignments({partition: [node]}) == {partition: None}
            assert admin.list_partition_reassignments() == {}

    def test_no_election_is_needed_when_the_only_replica_leads(self, servers: str) -> None:
        topic = kafka_python.create_topic(servers)
        with kafka_python.admin_of(servers) as admin:
            answer = admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
        (result,) = answer.replica_election_results
        assert [each.error_code for each in result.partition_result] == [KafkaError.ELECTION_NOT_NEEDED]

    def test_user_is_not_found_when_credentials_are_described(self, servers: str) -> None:
        user = new_name("user")
        with kafka_python.admin_of(servers) as admin:
            assert admin.describe_user_scram_credentials() == {}
            assert "does not exist" in admin.describe_user_scram_credentials([user])[user]["error"]

    def test_log_level_is_shown_when_it_was_changed(self, servers: str) -> None:
        with kafka_python.admin_of(servers) as admin:
            (node,) = (str(broker["broker_id"]) for broker in admin.describe_cluster()["brokers"])
            for level in ("WARN", "INFO"):
                changed = ConfigResource(ConfigResourceType.BROKER_LOGGER, node, {"root": level})
                assert admin.alter_configs([changed]) == {"broker_logger": {node: "OK"}}
                described = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER_LOGGER, node)])
                root = described["broker_logger"][node]["root"]
                assert (root["value"], root["config_source"]) == (level, "DYNAMIC_BROKER_LOGGER_CONFIG")
