"""Java's client at its defaults (java/RideScenario.java) while brokers are killed and restarted under it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import penstock
from apache_kafka.jars import java_command
from penstock.testing.pytest_plugin import KafkaClusterFixture
from tests.clients.confluent import admin_of
from tests.interop.cluster.cluster_view import PATIENCE_S

PARTITIONS = 3


class Progress(NamedTuple):
    acknowledged: int
    read: int
    transactions: int
    errors: int


class Ride(threading.Thread):
    """The Java program, as it runs: reads what it prints, so that the newest progress is known."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._progress = Progress(0, 0, 0, 0)
        self._result: dict[str, str] = {}

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "progress":
                self._progress = Progress(*map(int, value.split()))
            else:
                self._result[key] = value

    def go_on(self) -> None:
        """Returns when everybody has made some progress from here; fails at the first error."""
        start = self._progress
        wanted = Progress(start.acknowledged + 100, start.read + 100, start.transactions + 3, 0)
        deadline = time.monotonic() + PATIENCE_S
        while not all(now >= aim for now, aim in zip(self._progress, wanted, strict=True)):
            assert time.monotonic() < deadline, f"{self._progress} is not {wanted}"
            assert self.is_alive(), "the Java program ended"
            assert self._progress.errors == 0, self.end()
            time.sleep(0.05)

    def end(self) -> dict[str, str]:
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()
        assert self._process.wait(2 * PATIENCE_S) == 0
        self.join()
        return self._result


@contextmanager
def riding(cluster: penstock.Cluster, topic: str, classes: Path) -> Iterator[Ride]:
    command = java_command("RideScenario", cluster.bootstrap_servers, topic, classes=classes)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        ride = Ride(process)
        ride.start()
        try:
            yield ride
        finally:
            process.kill()


def leader_of(cluster: penstock.Cluster, topic: str) -> int:
    metadata = admin_of(cluster.bootstrap_servers).list_topics(topic, timeout=PATIENCE_S)
    leader: int = metadata.topics[topic].partitions[0].leader
    return leader


@pytest.mark.timeout(600)
def test_no_error_reaches_the_application_and_nothing_is_lost_or_doubled_when_brokers_die_and_restart(
    kafka_cluster: KafkaClusterFixture, cluster: penstock.Cluster, scenario_classes: Path
) -> None:
    topic = kafka_cluster.topic(partitions=PARTITIONS)
    kafka_cluster.topic(f"{topic}-copy", partitions=PARTITIONS)

    def down_and_up(victim: int, end: Callable[[int], None]) -> None:
        end(victim)
        ride.go_on()  # the others do without it
        cluster.start_broker(victim)
        cluster.wait_until_in_sync(PATIENCE_S)
        ride.go_on()

    with riding(cluster, topic, scenario_classes) as ride:
        ride.go_on()
        down_and_up(leader_of(cluster, topic), cluster.kill)
        down_and_up(cluster.controller_id(), cluster.kill)
        down_and_up(leader_of(cluster, "__transaction_state"), cluster.kill)
        down_and_up(leader_of(cluster, "__consumer_offsets"), cluster.kill)
        for broker in cluster.brokers:
            down_and_up(broker.node_id, cluster.stop_broker)
        seen = ride.end()
    assert seen["errors"] == "[]"
    sent = seen["sent"]
    assert int(sent) > 1_000
    whole = f"{sent}/{sent}"
    assert seen["acknowledged"] == sent
    assert (seen["log"], seen["copy"]) == (whole, whole)
    for protocol in ("classic", "consumer"):
        assert (seen[f"{protocol}-read"], seen[f"{protocol}-distinct"]) == (sent, sent)
