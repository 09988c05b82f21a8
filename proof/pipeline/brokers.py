"""What the feeder and the pipeline of `pipeline.rounds` write to and read from: one broker, or a cluster."""

from __future__ import annotations

import random
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from penstock.local_cluster.cluster import Cluster
from penstock.testing.processes import BrokerProcess

# Few partitions of the internal topics: a start that takes its time only makes rounds longer.
_CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # records have times of long ago
}


class Broker(Protocol):
    """A broker that is killed and started again, or several brokers of which one is killed."""

    @property
    def bootstrap_servers(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> object: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class KilledCluster:
    """Each kill is of any broker: a leader, a coordinator, the controller, whether or not the one before is in sync."""

    def __init__(self, directory: Path, brokers: int, random_numbers: random.Random) -> None:
        self._cluster = Cluster(brokers, directory, _CONFIG)
        self._random = random_numbers
        self._victim = 1

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def kill(self) -> None:
        self._victim = self._random.choice([broker.node_id for broker in self._cluster.brokers])
        self._cluster.kill(self._victim)

    def start(self) -> None:
        self._cluster.start_broker(self._victim)

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)


def make_penstock(directory: Path, brokers: int, random_numbers: random.Random) -> Broker:
    if brokers == 1:
        return BrokerProcess(directory, config=_CONFIG)
    return KilledCluster(directory, brokers, random_numbers)
