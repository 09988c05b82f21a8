"""What clients that have logged in may do: confluent-kafka and kafka-python against rules of their users."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

import penstock
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from tests.clients.cli_runner import Cli
from tests.clients.support import PATIENCE_S

PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b" '
    'user_broker="b" user_admin="admin-secret" user_alice="alice-secret" user_bob="bob-secret";'
)
CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Guarded:
    """A broker with users and rules."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._cli = Cli(servers)
        self._admins: dict[str, AdminClient] = {}

    def settings(self, user: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def acls(self, *arguments: str) -> None:
        options = [f"{key}={value}" for key, value in self.settings("admin").items() if key != "bootstrap.servers"]
        self._cli.run("acls", *arguments, *(word for option in options for word in ("-X", option)))

    def topic(self) -> str:
        name = f"topic-{uuid.uuid4().hex[:8]}"
        self.admin("admin").create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_S)
        return name

    def admin(self, user: str) -> AdminClient:
        if user not in self._admins:
            self._admins[user] = AdminClient(self.settings(user))
        return self._admins[user]

    def produce(self, user: str, topic: str, **settings: Any) -> KafkaError | None:
        errors: list[KafkaError | None] = []
        producer = Producer(self.settings(user, message_timeout_ms=15_000, **settings))
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
        producer.flush(PATIENCE_S)
        return errors[0]

    def consume(self, user: str, topic: str, group: str) -> bytes | str | None:
        """The value of the first record, or the name of the error."""
        consumer = Consumer(self.settings(user, group_id=group, auto_offset_reset="earliest"))
        consumer.subscribe([topic])
        try:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            error = message.error()
            return error.name() if error else message.value()
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with penstock.Broker(data_dir=tmp_path_factory.mktemp("guarded"), config=CONFIG) as broker:
        yield Guarded(broker.bootstrap_servers)


def test_a_producer_and_a_consumer_get_what_their_rules_allow(guarded: Guarded) -> None:
    topic, group = guarded.topic(), f"group-{uuid.uuid4().hex[:8]}"
    refused = guarded.produce("alice", topic)
    assert refused is not None
    assert refused.name() == "TOPIC_AUTHORIZATION_FAILED"
    guarded.acls("add", "-p", "alice", "--producer", "-t", topic)
    assert guarded.produce("alice", topic) is None
    assert guarded.produce("alice", topic, enable_idempotence=True) is None
    assert guarded.consume("alice", topic, group) == "GROUP_AUTHORIZATION_FAILED"
    guarded.acls("add", "-p", "alice", "-o", "read", "-g", group)
    assert guarded.consume("alice", topic, group) == "TOPIC_AUTHORIZATION_FAILED"
    guarded.acls("add", "-p", "bob", "--consumer", "-t", topic, "-g", group)
    assert guarded.consume("bob", topic, group) == b"value"
    guarded.acls("add", "-p", "bob", "--deny", "-o", "read", "-t", topic[:8], "--prefixed")
    assert guarded.consume("bob", topic, group) == "TOPIC_AUTHORIZATION_FAILED"


def test_topics_are_not_seen_when_the_client_may_not_describe_them(guarded: Guarded) -> None:
    hidden, shown = guarded.topic(), guarded.topic()
    guarded.acls("add", "-p", "alice", "-o", "describe", "-t", shown)
    topics = guarded.admin("alice").list_topics(timeout=PATIENCE_S).topics
    assert shown in topics
    assert hidden not in topics


def test_a_rule_that_is_removed_holds_no_more_for_a_client_that_is_connected(guarded: Guarded) -> None:
    topic = guarded.topic()
    guarded.acls("add", "-p", "alice", "-o", "write", "-t", topic)
    errors: list[KafkaError | None] = []
    producer = Producer(guarded.settings("alice"))
    for _ in range(2):
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
        producer.flush(PATIENCE_S)
        guarded.acls("remove", "-t", topic, "--yes")
        guarded.acls("add", "-p", "alice", "-o", "describe", "-t", topic)  # or the client asks for ever
    assert errors[0] is None
    assert errors[1] is not None
    assert errors[1].name() == "TOPIC_AUTHORIZATION_FAILED"


def test_a_transactional_producer_needs_a_right_on_its_id(guarded: Guarded) -> None:
    topic = guarded.topic()
    guarded.acls("add", "-p", "alice", "--producer", "-t", topic)
    producer = Producer(guarded.settings("alice", transactional_id="ledger"))
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(PATIENCE_S)
    assert caught.value.args[0].name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    guarded.acls("add", "-p", "alice", "--producer", "-t", topic, "--transactional-id", "led", "--prefixed")
    producer = Producer(guarded.settings("alice", transactional_id="ledger"))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.commit_transaction(PATIENCE_S)


def test_kafka_python_is_refused_and_served_by_the_same_rules(guarded: Guarded) -> None:
    topic = guarded.topic()
    guarded.acls("add", "-p", "bob", "-o", "describe", "-t", topic)
    producer = KafkaProducer(
        bootstrap_servers=guarded.servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="bob",
        sasl_plain_password="bob-secret",  # a test's own
        enable_idempotence=False,
    )
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send(topic, b"value").get(PATIENCE_S)
        guarded.acls("add", "-p", "bob", "-o", "write", "-t", topic)
        assert producer.send(topic, b"value").get(PATIENCE_S).offset == 0
    finally:
        producer.close(PATIENCE_S)


def test_a_forwarded_request_has_the_rights_of_its_client() -> None:
    """CVE-2023-30429: what one broker passed on to another was done with the broker's own rights."""
    with penstock.Cluster(3, store="memory", secure=True) as cluster:
        admin_settings = dict(cluster.client_config)
        admin = AdminClient(admin_settings)
        alice = {**admin_settings, "sasl.username": "alice", "sasl.password": "alice-secret"}
        _add_user(admin, "alice", "alice-secret")
        for server in cluster.bootstrap_servers.split(","):
            client = AdminClient({**alice, "bootstrap.servers": server})
            with pytest.raises(KafkaException) as caught:
                client.create_topics([NewTopic("mine", 1, 3)])["mine"].result(PATIENCE_S)
            assert caught.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
        assert "mine" not in admin.list_topics(timeout=PATIENCE_S).topics


def _add_user(admin: AdminClient, name: str, password: str) -> None:
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        admin.alter_user_scram_credentials([change])[name].result(PATIENCE_S)
