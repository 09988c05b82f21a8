"""The administration of a real broker: what is read, what is changed, and what is refused. Runs against any broker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

import penstock
from penstock.admin import (
    FIRST,
    LAST,
    Acl,
    AclEntry,
    AclFilter,
    Admin,
    ApiError,
    AsyncAdmin,
    CommittedOffset,
    Component,
    ConfigPlace,
    Credential,
    ErrorCode,
    NewPassword,
    NewTopic,
    Operation,
    Part,
    PatternType,
    Permission,
    QuotaEntity,
    ReplicaKey,
    ResourcePattern,
    ResourceType,
    TopicPartition,
    UserState,
    connect,
    find_lags,
)
from penstock.security.quotas.alterations import EXACT
from tests.clients.confluent import QUIET, admin_of, produce, producer_of
from tests.clients.conftest import RunningBroker
from tests.clients.support import PATIENCE_S


@pytest.fixture
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with connect(broker.bootstrap_servers, timeout_s=20.0) as opened:
        yield opened


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    name = f"admin-{uuid.uuid4().hex[:8]}"
    assert admin.create_topics([NewTopic(name, 3, 1, {"retention.ms": "86400000"})]) == {}
    yield name
    admin.delete_topics([name])


def read_some(broker: RunningBroker, topic: str, group: str) -> Consumer:
    """A member of the group that has read, and committed, the first record of partition 1."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "client.id": "reader"})
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(10)
        assert message is not None
        assert not message.error()
        if message.partition() == 1:
            consumer.commit(message=message, asynchronous=False)
            return consumer


def test_picture_has_every_part_when_the_broker_is_well(admin: Admin, broker: RunningBroker, topic: str) -> None:
    produce(producer_of(broker.bootstrap_servers), topic, [b"1", b"2", b"3"], partition=1)
    group = f"group-of-{topic}"
    consumer = read_some(broker, topic, group)
    try:
        state = admin.read(config_keys=["retention.ms", "min.insync.replicas"])
    finally:
        consumer.close()
    assert state.failures == ()
    assert set(state.parts) == set(Part)
    assert state.controller_id in state.brokers
    (node_id,) = {each.leader for each in state.topics[topic].partitions}
    assert state.brokers[node_id].is_alive
    assert state.brokers[node_id].directories
    place = TopicPartition(topic, 1)
    assert (state.first_offsets[place], state.last_offsets[place]) == (0, 3)
    settings = state.configs[ConfigPlace.topic(topic)]
    assert (settings["retention.ms"].value, settings["retention.ms"].is_default) == ("86400000", False)
    partition = state.partition(place)
    assert partition is not None
    assert state.minimum(partition) == 1
    assert [(lag.place, lag.offsets) for lag in find_lags(state, group)] == [(place, 2)]
    assert state.groups[group].state == "Stable"
    reader = state.groups[group].reader_of(place)
    assert reader is not None
    assert reader.client_id == "reader"
    assert admin.delete_groups([group, "no-such-group"]).keys() == {"no-such-group"}


def test_offsets_come_by_end_and_by_time_when_they_are_asked_for(
    admin: Admin, broker: RunningBroker, topic: str
) -> None:
    produce(producer_of(broker.bootstrap_servers), topic, [b"1", b"2"], partition=0)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 2)]
    assert admin.offsets(places).found == {places[0]: 2, places[1]: 0}
    assert admin.offsets(places, FIRST, is_committed=True).found == dict.fromkeys(places, 0)
    assert admin.offsets({places[0]: 1_000, places[1]: 1_000}).found == {places[0]: 0}
    absent = admin.offsets([TopicPartition(topic, 9)])
    assert absent.found == {}
    assert [failure.code for failure in absent.failures] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_each_change_has_its_own_outcome_when_some_are_refused(admin: Admin, topic: str) -> None:
    refused = admin.create_topics([NewTopic(topic, 1, 1), NewTopic("no such name", 1, 1)])
    assert {name: error.code for name, error in refused.items()} == {
        topic: ErrorCode.TOPIC_ALREADY_EXISTS,
        "no such name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert admin.add_partitions({topic: 5}) == {}
    assert len(admin.topics([topic])[topic].partitions) == 5
    place = ConfigPlace.topic(topic)
    assert admin.alter_configs({place: {"retention.ms": None, "segment.bytes": "1048576"}}) == {}
    settings = admin.configs([place], ["retention.ms", "segment.bytes"]).found[place]
    assert settings["retention.ms"].value == "604800000"
    assert settings["segment.bytes"].value == "1048576"
    assert admin.alter_configs({place: {"retention.ms": "soon"}})[place].code is ErrorCode.INVALID_CONFIG
    assert admin.elect_leaders([TopicPartition(topic, 0)]).keys() <= {TopicPartition(topic, 0)}
    assert admin.moves() == {}
    assert admin.delete_topics([topic, "no-such-topic"]).keys() == {"no-such-topic"}


def test_topic_is_refused_by_its_name_when_it_is_not_there(admin: Admin) -> None:
    with pytest.raises(ApiError, match="no-such-topic"):
        admin.topics(["no-such-topic"])


def test_certificate_has_an_end_when_the_broker_wants_tls_and_a_login() -> None:
    with penstock.Broker(secure=True) as secure:
        with connect(secure.bootstrap_servers, secure.client_config, timeout_s=20.0) as admin:
            state = admin.read({Part.DIRECTORIES})
        (seen,) = state.brokers.values()
        assert state.failures == ()
        assert seen.certificate_left_s is not None
        assert seen.certificate_left_s > 0
        with (
            connect(secure.bootstrap_servers, timeout_s=2.0) as stranger,
            pytest.raises(OSError, match=secure.bootstrap_servers),
        ):
            stranger.topics()


def test_operations_run_on_the_loop_of_the_caller_when_it_has_one(broker: RunningBroker, topic: str) -> None:
    async def look() -> set[str]:
        async with AsyncAdmin.of(broker.bootstrap_servers) as admin:
            topics, groups = await asyncio.gather(admin.topics(), admin.groups(["no-such-group"]))
            assert [failure.subject for failure in groups.failures] == ["group no-such-group"]
            return set(topics)

    assert topic in asyncio.run(look())


# ------------------------------------------------------------------------------------ what confluent-kafka changes, too


def test_records_are_gone_for_both_when_they_are_deleted(admin: Admin, broker: RunningBroker, topic: str) -> None:
    produce(producer_of(broker.bootstrap_servers), topic, [b"1", b"2", b"3"], partition=0)
    produce(producer_of(broker.bootstrap_servers), topic, [b"1", b"2"], partition=1)
    places = [TopicPartition(topic, index) for index in range(3)]
    refused = admin.delete_records({places[0]: 2, places[1]: LAST, places[2]: 9, TopicPartition(topic, 7): 0})
    assert {place: error.code for place, error in refused.items()} == {
        places[2]: ErrorCode.OFFSET_OUT_OF_RANGE,
        TopicPartition(topic, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert admin.offsets(places, FIRST).found == {places[0]: 2, places[1]: 2, places[2]: 0}
    asked = ClientPartition(topic, 0, 3)
    deleted = admin_of(broker.bootstrap_servers).delete_records([asked])[asked].result(PATIENCE_S)
    assert deleted.low_watermark == 3
    assert admin.offsets(places[:1], FIRST).found == {places[0]: 3}


def test_commits_are_seen_by_both_when_they_are_altered(admin: Admin, broker: RunningBroker, topic: str) -> None:
    group = f"group-of-{topic}"
    produce(producer_of(broker.bootstrap_servers), topic, [b"1", b"2"], partition=1)
    places = [TopicPartition(topic, index) for index in range(3)]
    assert admin.commits.alter(group, {places[0]: 0, places[1]: CommittedOffset(2, metadata="by hand")}) == {}
    confluent = admin_of(broker.bootstrap_servers)

    def read_by_confluent() -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group)
        found = confluent.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
        return {each.partition: each.offset for each in found.topic_partitions}

    assert read_by_confluent() == {0: 0, 1: 2}
    altered = ConsumerGroupTopicPartitions(group, [ClientPartition(topic, 1, 1)])
    confluent.alter_consumer_group_offsets([altered])[group].result(PATIENCE_S)
    committed = admin.groups([group], with_members=False).found[group].committed
    assert committed is not None
    assert {place: commit.offset for place, commit in committed.items()} == {places[0]: 0, places[1]: 1}
    assert admin.commits.delete(group, [places[0], places[2]]) == {}
    assert read_by_confluent() == {1: 1}
    consumer = read_some(broker, topic, group)
    try:
        refused = admin.commits.alter(group, {places[0]: 1})
        assert "has members" in (refused[places[0]].message or "")
        still_read = admin.commits.delete(group, [places[1]])
        assert still_read[places[1]].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    finally:
        consumer.close()
    with pytest.raises(ApiError):
        admin.commits.delete(f"no-{group}", [places[0]])


def test_directory_is_refused_when_the_broker_has_no_such_one(admin: Admin, topic: str) -> None:
    (node_id,) = {each.leader for each in admin.topics([topic])[topic].partitions}
    replica = ReplicaKey(topic, 0, node_id)
    refused = admin.move_directories({replica: "/no/such/directory"})
    assert refused[replica].code is ErrorCode.LOG_DIR_NOT_FOUND
    with pytest.raises(ApiError):
        admin.unregister_broker(4_000)


def test_transaction_is_listed_and_described_when_it_is_open(admin: Admin, broker: RunningBroker, topic: str) -> None:
    transactional_id = f"transaction-of-{topic}"
    producer = producer_of(broker.bootstrap_servers, transactional_id=transactional_id)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    produce(producer, topic, [b"1"], partition=2)
    found = admin.transactions.find(states=["Ongoing"]).found[transactional_id]
    described, failures = admin.transactions.describe([transactional_id, f"no-{transactional_id}"])
    state = described[transactional_id]
    assert (state.state, state.producer_id, state.coordinator) == ("Ongoing", found.producer_id, found.coordinator)
    assert state.partitions == (TopicPartition(topic, 2),)
    assert state.started_ms is not None
    assert [failure.code for failure in failures] == [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    producer.commit_transaction(PATIENCE_S)
    assert transactional_id not in admin.transactions.find(states=["Ongoing"]).found


def test_open_transaction_ends_when_the_partition_is_told_to_abort_it(
    admin: Admin, broker: RunningBroker, topic: str
) -> None:
    place = TopicPartition(topic, 1)
    producer = producer_of(broker.bootstrap_servers, transactional_id=f"hanging-in-{topic}")
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    produce(producer, topic, [b"1"], partition=1)
    (found,) = admin.transactions.open_in(place)
    assert found.start_offset == 0
    assert admin.offsets([place], is_committed=True).found == {place: 0}
    admin.transactions.abort(place, found)
    assert admin.transactions.open_in(place) == []
    assert admin.offsets([place], is_committed=True).found == {place: 2}
    with pytest.raises(ApiError):
        admin.transactions.open_in(TopicPartition(f"no-{topic}", 0))


def test_users_are_seen_by_both_when_they_get_passwords(admin: Admin, broker: RunningBroker) -> None:
    user = f"user-{uuid.uuid4().hex[:8]}"
    passwords = [NewPassword(user, "pencil"), NewPassword(user, "pencil", "SCRAM-SHA-256", 5_000)]
    assert admin.security.set_passwords(passwords) == {}
    assert admin.security.users([user]).found == {
        user: UserState(user, {"SCRAM-SHA-256": 5_000, "SCRAM-SHA-512": 4_096})
    }
    confluent: Any = admin_of(broker.bootstrap_servers)
    described = confluent.describe_user_scram_credentials([user])[user].result(PATIENCE_S)
    assert {each.mechanism.name: each.iterations for each in described.scram_credential_infos} == {
        "SCRAM_SHA_256": 5_000,
        "SCRAM_SHA_512": 4_096,
    }
    gone = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    confluent.alter_user_scram_credentials([gone])[user].result(PATIENCE_S)
    again = [Credential(user), Credential(user, "SCRAM-SHA-256")]
    assert {name: error.code for name, error in admin.security.delete_passwords(again).items()} == {
        user: ErrorCode.RESOURCE_NOT_FOUND
    }
    found, failures = admin.security.users([user])
    assert found == {}
    assert [failure.code for failure in failures] == [ErrorCode.RESOURCE_NOT_FOUND]


def test_quotas_are_kept_when_one_of_two_is_refused(admin: Admin) -> None:
    user = f"user-{uuid.uuid4().hex[:8]}"
    entity, wrong = QuotaEntity.of({"user": user}), QuotaEntity.of({"user": user, "client-id": "app"})
    values: dict[QuotaEntity, dict[str, float | None]]
    values = {entity: {"producer_byte_rate": 1_000.0, "request_percentage": 50.0}, wrong: {"no.such.rate": 1.0}}
    refused = admin.security.alter_quotas(values)
    assert {each: error.code for each, error in refused.items()} == {wrong: ErrorCode.INVALID_REQUEST}
    about = [Component("user", EXACT, user)]
    assert admin.security.quotas(about) == {entity: {"producer_byte_rate": 1_000.0, "request_percentage": 50.0}}
    assert admin.security.alter_quotas({entity: {"request_percentage": None}}) == {}
    assert admin.security.quotas(about, is_strict=True) == {entity: {"producer_byte_rate": 1_000.0}}
    assert admin.security.alter_quotas({entity: {"producer_byte_rate": None}}) == {}
    assert admin.security.quotas(about) == {}


def test_acls_are_an_error_when_there_is_no_authorizer(admin: Admin) -> None:
    with pytest.raises(ApiError) as caught:
        admin.security.acls()
    assert caught.value.code is ErrorCode.SECURITY_DISABLED


def test_rights_and_tokens_are_seen_by_both_when_the_broker_is_secure() -> None:
    with penstock.Broker(secure=True, config={"delegation.token.secret.key": "a secret of the tests"}) as secure:
        confluent: Any = AdminClient({**secure.client_config, **QUIET})
        with connect(secure.bootstrap_servers, secure.client_config, timeout_s=20.0) as admin:
            orders = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED)
            read = Acl(orders, AclEntry("User:a", "*", Operation.READ, Permission.ALLOW))
            wrong = Acl(orders, AclEntry("no principal", "*", Operation.READ, Permission.ALLOW))
            assert {acl: error.code for acl, error in admin.security.create_acls([read, wrong]).items()} == {
                wrong: ErrorCode.INVALID_REQUEST
            }
            about = AclFilter(ResourceType.TOPIC, "orders-2024", PatternType.MATCH, "User:a")
            assert admin.security.acls(about) == [read]
            binding = AclBinding(
                confluent_kafka.admin.ResourceType.TOPIC,
                "orders",
                ResourcePatternType.PREFIXED,
                "User:a",
                "*",
                AclOperation.WRITE,
                AclPermissionType.ALLOW,
            )
            confluent.create_acls([binding])[binding].result(PATIENCE_S)
            write = read._replace(entry=read.entry._replace(operation=Operation.WRITE))
            deleted, refused = admin.security.delete_acls([about])
            assert (deleted, refused) == ({about: [read, write]}, {})
            assert admin.security.acls(about) == []

            token = admin.security.create_token(max_lifetime_ms=60_000)
            assert admin.security.tokens([token.owner]) == {token.token_id: token}
            assert admin.security.renew_token(token.hmac, 30_000) <= token.latest_ms
            admin.security.expire_token(token.hmac)
            assert admin.security.tokens() == {}
            with pytest.raises(ApiError) as caught:
                admin.security.renew_token(token.hmac)
            assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
