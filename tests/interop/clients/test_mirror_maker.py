"""MirrorMaker 2 (Kafka Connect with the mirror connectors), from a broker to itself under another alias."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from apache_kafka.jars import java_command
from penstock.testing.processes import ServerProcess
from tests.interop.conftest import MakeTopic

RECORDS = 100
# Connect looks through all its plugins at the start, which takes half a minute where two cores have other work.
PATIENCE_S = 180.0
INTERNAL = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
STORAGE = ("offset.storage", "status.storage", "config.storage")


def properties(servers: str, topic: str) -> str:
    settings = {
        "clusters": "source, target",
        "source.bootstrap.servers": servers,
        "target.bootstrap.servers": servers,
        "source->target.enabled": "true",
        "target->source.enabled": "false",
        "topics": topic,
        "groups": "none",
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in (*INTERNAL, *STORAGE)},
        "sync.topic.acls.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
    }
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


@contextmanager
def mirror_maker(directory: Path, servers: str, topic: str) -> Iterator[Path]:
    """A running MirrorMaker; the path is that of its log."""
    path, log = directory / "mirror.properties", directory / "mirror.log"
    path.write_text(properties(servers, topic))
    command = java_command(
        "org.apache.kafka.connect.mirror.MirrorMaker",
        *(str(path), "--clusters", "target"),
        options=("-Xmx512m",),
        logging="server.properties",
    )
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield log
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            finally:
                process.kill()


def wait_for(log: Path, pattern: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not re.search(pattern, log.read_text()):
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)


def read(servers: str, topic: str, count: int) -> set[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"check-{topic}", "auto.offset.reset": "earliest"})
    values: set[bytes] = set()
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.add(message.value() or b"")
    finally:
        consumer.close()
    return values


def test_topic_is_mirrored_without_an_error_when_mirror_maker_starts(
    broker: ServerProcess, make_topic: MakeTopic, topic: str, tmp_path: Path
) -> None:
    """Each start had an error in its log: the broker closed the connection that asked for ACLs."""
    make_topic(topic, retention_ms="123456789")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode())
    producer.flush()
    with mirror_maker(tmp_path, broker.bootstrap_servers, topic) as log:
        wait_for(log, "syncing topic ACLs took")
        assert len(read(broker.bootstrap_servers, f"source.{topic}", RECORDS)) == RECORDS
        lines = log.read_text().splitlines()  # before the end, which interrupts what is under way
    assert [line for line in lines if "] ERROR " in line or "] FATAL " in line] == []
    resource = ConfigResource(ResourceType.TOPIC, f"source.{topic}")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "123456789"
