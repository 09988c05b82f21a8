"""What all partitions of a broker share: the broker's id, the time, and the registered brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.broker.partitions.confirmations import Confirmations
from penstock.broker.partitions.throttling import Throttle
from penstock.cluster.image import BrokerRegistration
from penstock.core.clock import Clock
from penstock.core.metrics.cluster_counters import ReplicaMetrics
from penstock.core.types import TopicPartition
from penstock.replication.progress import NO_BROKER_EPOCH


def _take_no_notice(_: TopicPartition) -> None:
    """For a broker without maintained in-sync sets and leases."""


def _is_sure(_: TopicPartition) -> bool:
    """A standalone broker leads for as long as it lives."""
    return True


def _is_session_sure() -> bool:
    return True


class LeaderContext:
    __slots__ = (
        "brokers",
        "clock",
        "confirmations",
        "is_session_sure",
        "is_sure",
        "lag_max_ms",
        "lease_changed",
        "metrics",
        "node_id",
        "noticed",
        "throttle",
    )

    def __init__(self, node_id: int, clock: Clock, lag_max_ms: int) -> None:
        self.node_id = node_id
        self.clock = clock
        self.lag_max_ms = lag_max_ms
        self.brokers: Mapping[int, BrokerRegistration] = {}  # in the newest image
        # Called for a follower that may join an in-sync set.
        self.noticed: Callable[[TopicPartition], None] = _take_no_notice
        # Called for a leadership that ends before the image says so, and for a leadership that continues.
        self.lease_changed: Callable[[TopicPartition], None] = _take_no_notice
        # Whether this broker may lead a partition with followers at this moment: by the session, or by the lease.
        self.is_sure: Callable[[TopicPartition], bool] = _is_sure
        # Whether the store cannot have given up this broker, so that no other broker leads its partitions.
        self.is_session_sure: Callable[[], bool] = _is_session_sure
        self.confirmations = Confirmations()
        self.metrics = ReplicaMetrics()
        # The throttle of leaders; None as long as no topic names a replica of this broker.
        self.throttle: Throttle | None = None

    @property
    def is_throttling(self) -> bool:
        return self.throttle is not None

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        """Whether the fetching broker is the registered broker and is not stopping: only then it may join an in-sync
        set.
        """
        registration = self.brokers.get(node_id)
        return (
            registration is not None
            and not registration.is_stopping
            and broker_epoch in (registration.epoch, NO_BROKER_EPOCH)
        )
