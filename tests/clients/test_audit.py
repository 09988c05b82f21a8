"""Who did what, as real clients do it and as `penstock audit` tells it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from kafka import KafkaAdminClient

import penstock
from penstock.core.internal_topics import AUDIT
from penstock.testing.processes import BrokerProcess
from tests.clients.cli_runner import Cli
from tests.clients.support import PATIENCE_S

CONFIG = {
    "penstock.audit.file": "audit.jsonl",
    "penstock.audit.topic.enable": "true",
    "penstock.audit.kinds": "login,denial,change,read,write",
}


class Audited:
    """A broker with a trail, an administrator, and the trail as the command tells it once the broker has stopped."""

    def __init__(self, data: Path, config: dict[str, str]) -> None:
        self.data = data
        self.broker = penstock.Broker(data_dir=data, config=config)
        self.broker.start()
        self.servers = self.broker.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.servers, "client.id": "boss"})
        self.cli = Cli(self.servers)

    def stop(self) -> None:
        self.broker.stop()

    def events(self, *options: str) -> list[dict[str, Any]]:
        self.stop()
        arguments = ("audit", "show", "--file", str(self.data / "audit.jsonl"), "--json", *options)
        return [event for event in self.cli.run(*arguments).json_lines if event["kind"] != "trail"]


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[Audited]:
    running = Audited(tmp_path, CONFIG)
    try:
        yield running
    finally:
        running.stop()


def create(audited: Audited, name: str, **options: Any) -> None:
    audited.admin.create_topics([NewTopic(name, 2, 1, **options)])[name].result(PATIENCE_S)


def test_every_change_is_told_with_who_and_what_when_an_administrator_works(audited: Audited) -> None:
    create(audited, "orders", config={"retention.ms": "1000"})
    audited.admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(PATIENCE_S)
    wanted = ConfigResource(
        ConfigResource.Type.TOPIC,
        "orders",
        incremental_configs=[
            ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", None, incremental_operation=AlterConfigOpType.DELETE),
        ],
    )
    audited.admin.incremental_alter_configs([wanted])[wanted].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="already exists"):
        create(audited, "orders")
    audited.admin.delete_topics(["orders"])["orders"].result(PATIENCE_S)
    changes = audited.events("--kind", "change")
    assert [(each["what"], each["operation"], each["resource"], each["allowed"]) for each in changes] == [
        ("CreateTopics", "Create", "Topic:orders", True),
        ("CreatePartitions", "Alter", "Topic:orders", True),
        ("IncrementalAlterConfigs", "AlterConfigs", "Topic:orders", True),
        ("CreateTopics", "Create", "Topic:orders", False),
        ("DeleteTopics", "Delete", "Topic:orders", True),
    ]
    assert {(each["principal"], each["address"], each["client_id"]) for each in changes} == {
        ("User:ANONYMOUS", "127.0.0.1", "boss")
    }
    assert changes[0]["details"] == {"partitions": 2, "replication_factor": 1, "retention.ms": "1000"}
    assert changes[2]["details"] == {"retention.ms": "2000", "cleanup.policy (deleted)": None}
    assert changes[3]["details"]["error"] == "TOPIC_ALREADY_EXISTS"


def test_reads_and_writes_are_merged_when_asked_for(audited: Audited) -> None:
    create(audited, "orders")
    producer = Producer({"bootstrap.servers": audited.servers, "client.id": "shop", "linger.ms": 0})
    for number in range(20):
        producer.produce("orders", f"v{number}", partition=0)
        assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": audited.servers, "group.id": "g", "client.id": "reader"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert len(consumer.consume(20, PATIENCE_S)) == 20
    consumer.close()
    (written,) = audited.events("--kind", "write", "--resource", "Topic:orders")
    assert (written["client_id"], written["details"]["records"]) == ("shop", 20)
    assert written["details"]["count"] > 1
    (read,) = audited.events("--kind", "read", "--resource", "Topic:orders")
    assert read["client_id"] == "reader"
    assert read["details"]["bytes"] >= written["details"]["bytes"]


def test_topic_is_told_of_when_it_comes_by_being_used(audited: Audited) -> None:
    producer = Producer({"bootstrap.servers": audited.servers, "client.id": "shop"})
    producer.produce("fresh", "v")
    assert producer.flush(PATIENCE_S) == 0
    (told,) = audited.events("--kind", "change")
    assert (told["resource"], told["operation"], told["client_id"]) == ("Topic:fresh", "Create", "shop")
    assert told["details"] == {"automatically": True}


def test_groups_are_told_of_when_reset_and_deleted(audited: Audited) -> None:
    create(audited, "orders")
    consumer = Consumer({"bootstrap.servers": audited.servers, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    consumer.close()
    audited.admin.delete_consumer_groups(["g"])["g"].result(PATIENCE_S)
    told = audited.events("--resource", "Group:g", "--kind", "change")
    assert [each["operation"] for each in told] == ["ResetOffsets", "Delete"]
    assert told[0]["details"] == {"topic": "orders", "partition": 0, "offset": 5}


def test_secret_is_nowhere_in_the_trail_when_a_client_sets_one(audited: Audited) -> None:
    secret = "hunter2-and-more"
    with pytest.raises(KafkaException):
        create(audited, "orders", config={"sasl.jaas.config": f'x password="{secret}";', "ssl.key.password": secret})
    (told,) = audited.events("--kind", "change")
    assert told["details"]["ssl.key.password"] == "[hidden]"
    for path in audited.data.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def note_failure(failures: list[str], error: Any, _message: object) -> None:
    failures.append(error.name())


def test_clients_cannot_write_to_the_audit_topic_whatever_they_call_themselves(audited: Audited) -> None:
    create(audited, "orders")
    for name in ("app", "__admin_client", "broker-1-x"):
        producer = Producer({"bootstrap.servers": audited.servers, "client.id": name})
        failures: list[str] = []
        producer.produce(AUDIT, "forged", on_delivery=partial(note_failure, failures))
        producer.flush(PATIENCE_S)
        assert failures == ["TOPIC_AUTHORIZATION_FAILED"]
    admin = KafkaAdminClient(bootstrap_servers=audited.servers)
    try:
        (described,) = admin.describe_topics([AUDIT])
        assert described["is_internal"]
    finally:
        admin.close()


def test_topic_and_file_tell_the_same_when_both_are_written(audited: Audited) -> None:
    create(audited, "orders")
    shown: list[Any] = []
    while not shown:  # the topic is made when the first event is there
        shown = audited.cli.try_run("audit", "show", "--json", "--kind", "change").json_lines
    assert [each["resource"] for each in shown] == ["Topic:orders"]
    assert audited.cli.run("audit", "verify", "--json").json["findings"] == []
    counted = audited.cli.run("audit", "show", "--by", "operation", "--kind", "change", "--json").json
    assert counted == [{"operation": "Create", "count": 1}]
    assert audited.events("--kind", "change") == shown
    verified = audited.cli.run("audit", "verify", "--file", str(audited.data / "audit.jsonl"))
    assert "1 broker" in verified.text


def test_numbers_go_on_and_the_gap_shows_when_the_broker_is_killed(tmp_path: Path) -> None:
    config = {"penstock.audit.file": "audit.jsonl", "penstock.audit.file.max.bytes": "2000"}
    path = str(tmp_path / "audit.jsonl")
    for number, ending in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGTERM)):
        with BrokerProcess(tmp_path, config=config) as process:
            admin = AdminClient({"bootstrap.servers": process.bootstrap_servers})
            for name in "abc":
                topic = f"{name}{number}"
                admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
            if ending is signal.SIGKILL:
                process.kill()
    cli = Cli("unused:1")
    verified = cli.try_run("audit", "verify", "--file", path, "--json")
    document = json.loads(verified.out)
    assert verified.code == 1
    assert [each["problem"] for each in document["findings"]] == ["unclean"]
    assert len(list(tmp_path.glob("audit.jsonl.*"))) >= 2
    shown = cli.run("audit", "show", "--file", path, "--json", "--kind", "change").json_lines
    assert "penstock.audit.kinds" in cli.run("audit", "show", "--file", path, "--kind", "read").err
    assert {each["resource"] for each in shown} >= {f"Topic:{name}{number}" for name in "abc" for number in (1, 2)}


def test_every_broker_of_a_cluster_tells_its_part_when_clients_reach_it() -> None:
    config = {"penstock.audit.topic.enable": "true", "penstock.audit.topic.replication.factor": "2"}
    with penstock.Cluster(2, store="memory", config=config) as cluster:
        for broker in cluster.brokers:
            name = f"made-at-{broker.node_id}"
            admin = AdminClient({"bootstrap.servers": f"{broker.host}:{broker.port}", "client.id": name})
            admin.create_topics([NewTopic(name, 1, 2)])[name].result(PATIENCE_S)
        failures: list[str] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce(AUDIT, "forged", on_delivery=partial(note_failure, failures))
        producer.flush(PATIENCE_S)
        assert failures == ["TOPIC_AUTHORIZATION_FAILED"]
        cli = Cli(cluster.bootstrap_servers)
        told: list[Any] = []
        while len(told) < 2 or {each["source"][-1] for each in sources(cli)} != {"1", "2"}:
            told = cli.try_run("audit", "show", "--json", "--resource", "Topic:made-*").json_lines
        assert [each["resource"] for each in told] == ["Topic:made-at-1", "Topic:made-at-2"]
        assert cli.run("audit", "verify", "--json").json["findings"] == []


def test_events_are_shown_as_they_come_when_followed(audited: Audited) -> None:
    path = str(audited.data / "audit.jsonl")
    with audited.cli.running("audit", "follow", "--file", path, "--json", "--kind", "change") as following:
        assert following.stdout is not None
        names = (f"made-{number}" for number in range(1_000_000))
        stop = threading.Event()

        def go_on_creating() -> None:  # the command takes its time to begin
            while not stop.wait(0.2):
                create(audited, next(names))

        creating = threading.Thread(target=go_on_creating)
        creating.start()
        try:
            told = json.loads(following.stdout.readline())
        finally:
            stop.set()
            creating.join()
        assert told["resource"].startswith("Topic:made-")


def sources(cli: Cli) -> list[Any]:
    return cli.try_run("audit", "show", "--json", "--kind", "trail").json_lines
