"""Where the rounds play: three brokers and what coordinates them, each a process that can be paused.

`PenstockStage` is three of our brokers and their ZooKeeper. `tools/apache_kafka/pauses.py` has three brokers of Kafka
and their controller. The rounds are the same with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from penstock.local_cluster.cluster import Cluster
from penstock.local_cluster.process_members import ProcessMembers

BROKERS = 3
# What a topic of the rounds needs: a broker may be away, and a write is on two of them at least.
TOPIC_CONFIG = {"min.insync.replicas": "2"}
# A busy machine takes seconds for an election; a cluster that does not come back takes for ever.
PATIENCE_S = 60.0


class Pausable(Protocol):
    """A process that can be made to hang: SIGSTOP, with its connections open."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Stage(Protocol):
    """Use it as a context. `directory` holds all data and logs."""

    name: str
    directory: Path

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def coordination(self) -> Pausable:
        """Without it no leader can be elected, and no in-sync set changes."""

    @property
    def brokers(self) -> Mapping[int, Pausable]: ...

    def create_topic(self, name: str, partitions: int) -> None:
        """With a replica on each broker, and TOPIC_CONFIG; ApiError, OSError or ClusterError when it is refused, or not
        known to all brokers within PATIENCE_S.
        """

    def delete_topic(self, name: str) -> None: ...

    def wait_until_in_sync(self) -> None:
        """Until every replica of every partition is in sync; ClusterError after PATIENCE_S."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class PenstockStage:
    name = "Penstock"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._cluster = Cluster(BROKERS, directory, {"offsets.topic.num.partitions": "3"})

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def coordination(self) -> Pausable:
        members = self._cluster.members
        assert isinstance(members, ProcessMembers), "the cluster has processes"
        assert members.zookeeper is not None, "the cluster has a ZooKeeper of its own"
        return members.zookeeper

    @property
    def brokers(self) -> Mapping[int, Pausable]:
        return {broker.node_id: broker for broker in self._cluster.brokers}

    def create_topic(self, name: str, partitions: int) -> None:
        self._cluster.create_topic(name, partitions, BROKERS, TOPIC_CONFIG)

    def delete_topic(self, name: str) -> None:
        self._cluster.delete_topic(name)

    def wait_until_in_sync(self) -> None:
        self._cluster.wait_until_in_sync(PATIENCE_S)

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.abandon()
