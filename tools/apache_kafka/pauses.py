"""The rounds of `python -m proof pauses` with Apache Kafka: its controller is paused where ours has ZooKeeper.

PYTHONPATH=tools .venv/bin/python -m apache_kafka.pauses pauses --rounds 200 --seed 7
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from apache_kafka.cluster import ApacheKafkaBrokers
from apache_kafka.jars import kafka_version
from penstock.admin import Admin, ErrorCode, NewTopic, connect
from penstock.client.addresses import Address
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.state import ClusterCounts
from proof.frame import Task, main
from proof.kinds import KINDS
from proof.pauses import rounds
from proof.pauses.stage import BROKERS, PATIENCE_S, TOPIC_CONFIG, Pausable

# A broker of ours asks ZooKeeper for a session of 2 s, and one of Kafka its controller for 9: so that sessions end in a
# pause of either, Kafka's are as short. Three signs of life within a session, as ours.
_SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "650",
    "offsets.topic.num.partitions": "3",
}
_HEAP_MB = 512  # four servers share the machine
_POLL_S = 0.05
_ANSWER_TIMEOUT_S = 2.0


class ApacheKafkaStage:
    def __init__(self, directory: Path) -> None:
        self.name = f"Apache Kafka {kafka_version()}"
        self.directory = directory
        self._servers = ApacheKafkaBrokers(directory, BROKERS, config=_SETTINGS, heap_mb=_HEAP_MB)
        self._admin: Admin | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self._servers.bootstrap_servers

    @property
    def coordination(self) -> Pausable:
        return self._servers.controller

    @property
    def brokers(self) -> Mapping[int, Pausable]:
        return self._servers.brokers

    def create_topic(self, name: str, partitions: int) -> None:
        refused = self._running_admin.create_topics([NewTopic(name, partitions, BROKERS, TOPIC_CONFIG)])
        if name in refused:
            raise refused[name]
        self._wait_until(lambda state: name in state.topics, f"topic {name} is not known to all brokers")

    def delete_topic(self, name: str) -> None:
        refused = self._running_admin.delete_topics([name])
        if name in refused and refused[name].code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise refused[name]

    def wait_until_in_sync(self) -> None:
        """What a broker names as the controller is any broker: nothing is said of it here."""
        everybody = frozenset(self._servers.brokers)
        self._wait_until(
            lambda state: state.broker_ids == everybody and not state.incomplete and not state.unsettled,
            "the cluster is not in sync",
        )

    @property
    def _running_admin(self) -> Admin:
        assert self._admin is not None, "the brokers do not run"
        return self._admin

    def _read_counts(self, address: Address) -> ClusterCounts | None:
        view = self._running_admin.nodes.views([address]).found.get(address)
        return None if view is None else ClusterCounts.of(view)

    def _wait_until(self, is_so: Callable[[ClusterCounts], bool], problem: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for broker in self._servers.brokers.values():
            while (state := self._read_counts((broker.host, broker.port))) is None or not is_so(state):
                if time.monotonic() > deadline:
                    raise ClusterError(f"{problem} after {PATIENCE_S:g} s: {broker.name} says {state}")
                time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        self._servers.__enter__()
        self._admin = connect(self.bootstrap_servers, timeout_s=_ANSWER_TIMEOUT_S, patience_s=PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running_admin.close()
        self._servers.__exit__(kind, error, trace)


def run(task: Task) -> rounds.PauseReport:
    return rounds.run_on(task, ApacheKafkaStage)


if __name__ == "__main__":
    sys.exit(main([replace(kind, module="apache_kafka.pauses") for kind in KINDS if kind.name == "pauses"]))
