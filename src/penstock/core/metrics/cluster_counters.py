"""What the brokers of a cluster count: replication, the controller's work, and the session with the store."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.metrics.samples import MILLISECONDS, CounterSet, Histogram, Sample


class ReplicaMetrics(CounterSet):
    """What replicas fetch from each other, and how in-sync sets change."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_isr_updates",
        "isr_expands",
        "isr_shrinks",
        "reassigned_bytes_in",
        "reassigned_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.reassigned_bytes_in = 0  # of partitions that move
        self.reassigned_bytes_out = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.failed_isr_updates = 0


class ControllerMetrics(CounterSet):
    """An event is a requested change of the metadata; it waits for the one before."""

    __slots__ = ("leader_election_time_ms", "processing_time_ms", "queue_time_ms", "unclean_elections", "waiting")

    def __init__(self) -> None:
        self.queue_time_ms = Histogram(MILLISECONDS)
        self.processing_time_ms = Histogram(MILLISECONDS)
        self.leader_election_time_ms = Histogram(MILLISECONDS)  # of the events that gave partitions other leaders
        self.unclean_elections = 0
        self.waiting = 0


class StoreMetrics(CounterSet):
    """A store that is part of the broker has no samples: it has no connection that could be lost."""

    __slots__ = ("connects", "disconnects", "expirations", "is_remote", "request_latency_ms")

    def __init__(self) -> None:
        self.is_remote = False
        self.connects = 0
        self.disconnects = 0
        self.expirations = 0
        self.request_latency_ms = Histogram(MILLISECONDS)

    def samples(self, attribute: str) -> Iterator[Sample]:
        return super().samples(attribute) if self.is_remote else iter(())
