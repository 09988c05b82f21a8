"""A broker of three has two data directories, and one of them fails: what was there moves, and comes back (KIP-112)."""

from __future__ import annotations

from pathlib import Path

from penstock.testing.processes import ZooKeeperProcess
from tests.clients.confluent import produce, producer_of, read_topic, values
from tests.clients.support import eventually
from tests.integration.cluster.racks import racked_brokers
from tests.integration.moving import QUICK_MOVES, move
from tests.integration.test_failing_disks import fill_to_the_last_byte, small_disk

__all__ = ["small_disk"]  # a fixture

_VALUE = b"x" * 20_000


def test_others_lead_and_writers_go_on_when_one_directory_fails_and_it_returns_when_that_is_mended(
    zookeeper: ZooKeeperProcess,
    tmp_path: Path,
    small_disk: Path,
) -> None:
    failing = small_disk / "data"
    # Nobody leaves an in-sync set for being slow: what changes is the controller's doing.
    patient = {"replica.lag.time.max.ms": "600000", **QUICK_MOVES}
    configs = {1: {"log.dirs": f"{tmp_path / 'broker-1'},{failing}", **patient}, 2: patient, 3: patient}
    with racked_brokers(zookeeper, tmp_path, configs) as brokers:
        # Each directory gets one that broker 1 leads and one that it follows.
        for name, replicas in {"a": [1, 2, 3], "b": [1, 2, 3], "c": [2, 1, 3], "d": [2, 1, 3]}.items():
            brokers.create_topic(name, replicas, {"min.insync.replicas": "2"})
        producer = producer_of(brokers.servers, message_timeout_ms=60_000)
        for name in "abcd":
            produce(producer, name, [b"before"])
        lost = {"a", "c"}
        for name in sorted(lost):
            move(brokers.processes[1].bootstrap_servers, name, failing)
        fill_to_the_last_byte(small_disk / "ballast")
        for name in "abcd":
            produce(producer, name, [_VALUE] * 5)  # acks=all: each is acknowledged, by whoever leads
        for name in "abcd":
            expected = {2, 3} if name in lost else {1, 2, 3}
            brokers.await_in_sync(name, expected)
            assert brokers.state(name)[0] == (1 if name in "ab" and name not in lost else 2)
            assert values(read_topic(brokers.servers, name, 6)) == [b"before", *[_VALUE] * 5]
        (small_disk / "ballast").unlink()
        process = brokers.processes[1]
        process.restart()
        for name in "abcd":
            brokers.await_in_sync(name, {1, 2, 3})
        for name in sorted(lost):
            eventually(
                lambda name=name: (failing / f"{name}-0" / "00000000000000000000.log").stat().st_size > 100_000,  # type: ignore[misc]
                "the return of the records",
            )
