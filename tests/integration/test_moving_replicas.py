"""Partitions move between the data directories of a broker while real clients write and read (KIP-113)."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Message

from proof.crash.check import verify_files
from tests.clients.confluent import create_topic, producer_of, read_topic
from tests.clients.support import eventually
from tests.integration.conftest import StartBroker
from tests.integration.moving import QUICK_MOVES, ask_to_move, await_place

_PARTITIONS = 4


class Writer:
    """An idempotent producer that writes numbers to all partitions until it is told to stop."""

    def __init__(self, servers: str, topic: str) -> None:
        self.acknowledged: dict[int, list[int]] = {index: [] for index in range(_PARTITIONS)}
        self.failures: list[str] = []
        self._topic = topic
        self._producer = producer_of(servers, enable_idempotence=True, message_timeout_ms=90_000, linger_ms=2)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(90) == 0

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.001):
            for _ in range(20):
                number += 1
                value = b"%09d" % number + b"x" * 200
                self._producer.produce(self._topic, value, partition=number % _PARTITIONS, on_delivery=self._note)
            self._producer.poll(0)

    def _note(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[message.partition() or 0].append(int((message.value() or b"")[:9]))


def numbers_of(servers: str, topic: str, expected: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """As many from each partition as are expected there."""
    return {
        partition: [
            int((message.value() or b"")[:9])
            for message in read_topic(servers, topic, len(numbers), partition=partition)
        ]
        for partition, numbers in expected.items()
    }


@pytest.mark.parametrize(
    ("rounds", "is_killed"),
    [
        (2, False),
        (2, True),
        pytest.param(50, False, marks=pytest.mark.soak),
        pytest.param(50, True, marks=pytest.mark.soak),
    ],
)
def test_every_record_is_there_once_and_in_order_when_partitions_move_under_load(
    start_broker: StartBroker, tmp_path: Path, rounds: int, is_killed: bool
) -> None:
    places = [tmp_path / name for name in "abc"]
    config = {"log.dirs": ",".join(map(str, places)), **QUICK_MOVES}
    broker = start_broker(places[0], config=config)
    servers = broker.bootstrap_servers
    topic = create_topic(servers, _PARTITIONS, {"segment.bytes": "1048576", "file.delete.delay.ms": "1000"})
    chance = random.Random(rounds)
    with Writer(servers, topic) as writer:
        for number in range(rounds):
            target, count = places[(number + 1) % 3], writer.count
            ask_to_move(servers, topic, target, range(_PARTITIONS))
            if is_killed:
                threading.Event().wait(chance.random() / 2)
                broker.kill()
                broker.start()
            for partition in range(_PARTITIONS):
                await_place(topic, target, partition)
            eventually(lambda count=count: writer.count > count, "records while partitions move")  # type: ignore[misc]
    assert writer.failures == []
    assert numbers_of(servers, topic, writer.acknowledged) == writer.acknowledged
    assert broker.terminate() == 0
    directories = [path for place in places for path in sorted(place.glob(f"{topic}-?"))]
    assert len(directories) == _PARTITIONS
    assert verify_files(directories) == []
    broker.start()
    assert numbers_of(servers, topic, writer.acknowledged) == writer.acknowledged
