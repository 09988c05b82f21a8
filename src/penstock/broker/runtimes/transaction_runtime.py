"""Runs the transaction coordinator (`coordinator_runtime` explains how). Its own parts: the markers that follow from a
durable decision, and the expiry of transactional ids.
"""

from __future__ import annotations

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.peers.peer_requests import Ask, no_peers
from penstock.broker.runtimes.coordinator_log import CoordinatorLog
from penstock.broker.runtimes.coordinator_runtime import CoordinatorRuntime
from penstock.broker.runtimes.marker_delivery import MarkerDelivery
from penstock.broker.runtimes.transaction_markers import MarkerWriter
from penstock.broker.slices import OFFSETS_PER_TURN, Slices, Work, pieces
from penstock.core.clock import Clock
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.outcome import Markers, TimerKey, TransactionOutcome
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard

# Kafka waits for as long as the transaction may take. This is the producers' default for that time, and for their own
# wait.
_REPLY_TIMEOUT_MS = 60_000


class TransactionRuntime(CoordinatorRuntime[TransactionShard, TransactionOutcome, TimerKey, TransactionSettings]):
    def __init__(
        self,
        coordinator: TransactionCoordinator,
        partitions: Partitions,
        markers: MarkerWriter,
        flusher: Flusher,
        clock: Clock,
        slices: Slices,
        ask: Ask = no_peers,
    ) -> None:
        log = CoordinatorLog(TRANSACTION_STATE, partitions, flusher, clock, slices)
        super().__init__(coordinator.shards, log, clock, slices, _REPLY_TIMEOUT_MS)
        self.coordinator = coordinator
        self.markers = markers
        self._delivery = MarkerDelivery(markers, flusher, self._begin, self._report, self._is_wanted, ask)

    @property
    def waiting_markers(self) -> int:
        return self._delivery.waiting_count

    def _follow(self, outcome: TransactionOutcome) -> None:
        super()._follow(outcome)
        for markers in outcome.markers:
            self._delivery.deliver(markers)

    def on_leaders_changed(self) -> None:
        """Markers that wait for a leader are tried at once."""
        self._delivery.look_again()

    def _report(self, written: Markers) -> None:
        self._perform(self.coordinator.on_markers_written(written, self._clock.now_ms()))

    def _is_wanted(self, markers: Markers) -> bool:
        shard = self.shards.find(markers.state_partition)
        return shard is not None and shard.coordinator_epoch == markers.coordinator_epoch

    async def expire(self) -> None:
        """Removes transactional ids that have been unused for long."""
        await self._slices.run(self._expire())

    def _expire(self) -> Work[None]:
        for partition in self.shards.active_partitions():
            if not self.shards.is_active(partition):
                continue
            for ids in pieces(list(self.shards.hosted(partition).transactions), OFFSETS_PER_TURN):
                self._perform(self.coordinator.expire_transactional_ids(partition, self._clock.now_ms(), ids))
                yield

    def _unload(self, partition: int) -> None:
        self._delivery.forget(partition)
        super()._unload(partition)

    async def close(self) -> None:
        self._delivery.forget_all()
        await super().close()
