"""The reading half of a partition's log: what it holds, where it begins and ends, and what of it is decided."""

from __future__ import annotations

from penstock.core.types import TopicPartition
from penstock.log.availability import Availability
from penstock.log.reading import positions as reading
from penstock.log.reading.positions import TimestampedOffset
from penstock.log.recovery.loading import LoadedLog
from penstock.log.recovery.replay import rebuild_transaction_index
from penstock.log.state.producer_state import ProducerState, ProducerStateEntry
from penstock.log.state.transaction_index import AbortedTransaction, TransactionIndex
from penstock.log.storage.files import FileSlice
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.errors import ApiError, ErrorCode


class ReadableLog(Availability):
    def __init__(self, topic_partition: TopicPartition, loaded: LoadedLog, high_watermark: int) -> None:
        super().__init__(topic_partition)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = min(max(high_watermark, loaded.log_start_offset), loaded.log_end_offset)
        self._segments = loaded.segments
        self._epochs = loaded.leader_epochs
        self._snapshots = loaded.snapshots
        self._producers: ProducerState = loaded.producer_state
        self._producers.note_high_watermark(self.high_watermark)
        self._aborted = loaded.aborted_transactions

    @property
    def size(self) -> int:
        return self._segments.size

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def first_segment_offset(self) -> int:
        return self._segments.first.base_offset

    @property
    def leader_epoch(self) -> int:
        """The latest epoch that has written here; -1 when none has."""
        return self._epochs.latest

    def epoch_for_offset(self, offset: int) -> int:
        return self._epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self._epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def active_producers(self) -> list[ProducerStateEntry]:
        return list(self._producers.entries.values())

    # ---- records

    def read(self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool) -> FileSlice | None:
        """From the batch that holds `offset` on; None when there is nothing below `limit_offset`, or it does not
        fit.
        """
        if self.offline_reason is not None:
            self.check_online()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} holds [{self.log_start_offset}, {self.log_end_offset}), not {offset}",
            )
        if offset == self.log_end_offset:
            return None
        try:
            return reading.read_slice(
                self._segments, offset, max_bytes, limit_offset, self.log_end_offset, at_least_one
            )
        except (OSError, CorruptLogError) as error:
            raise self.fail("reading", error) from error

    def find_by_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        self.check_online()
        with self.storage_errors("searching by timestamp"):
            return reading.find_by_timestamp(self._segments, timestamp, self.log_start_offset)

    def find_max_timestamp(self) -> TimestampedOffset | None:
        self.check_online()
        with self.storage_errors("searching by timestamp"):
            return reading.find_max_timestamp(self._segments)

    # ---- transactions

    @property
    def last_stable_offset(self) -> int:
        """Everything before it is decided, by markers that are below the high watermark."""
        unstable = self._producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self._producers.has_open_transaction(producer_id, producer_epoch)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with records or their marker in the range, by first offset; complete up to the last stable offset."""
        if not self._aborted:
            return []
        self.check_online()
        first_segment = self._segments.from_offset(start_offset)[0].base_offset
        with self.storage_errors("searching for aborted transactions"):
            return self._aborted.collect(first_segment, start_offset, end_offset, self._rebuild_transaction_index)

    def aborted_transactions_in(self, offset: int, found: FileSlice) -> list[AbortedTransaction]:
        """Those that a reader of `found`, which was read from `offset` on, must leave out.

        Costs 0.1 us as long as no transaction was ever aborted in the log.
        """
        if not self._aborted:
            return []
        with self.storage_errors("searching for aborted transactions"):
            end_offset = reading.find_end_offset(self._segments, offset, found, self.log_end_offset)
        return self.aborted_transactions(offset, min(end_offset, self.last_stable_offset))

    def _rebuild_transaction_index(self, base_offset: int) -> TransactionIndex:
        return rebuild_transaction_index(base_offset, self.topic_partition, self._snapshots, self._segments)
