"""A partition's state of each idempotent producer, and the rules for its batches.

- The state has the last five batches of a producer: a repeated batch gets the answer with its first offset and is not
  stored twice. A producer may have five requests in flight, so five are enough. A snapshot has the newest alone; the
  log is searched for the others when one of them is repeated.
- An epoch below the known epoch is a zombie's: INVALID_PRODUCER_EPOCH.
- A new epoch begins at sequence 0; within an epoch a batch follows the last batch without a gap, and 0 follows 2^31-1:
  OUT_OF_ORDER_SEQUENCE_NUMBER otherwise.
- An unknown or forgotten producer may begin anywhere; not so the first batch of a transaction of version 2, where every
  transaction has an epoch of its own (KIP-890).
- Inside an open transaction every batch is transactional: INVALID_TXN_STATE otherwise.
- A marker of an older coordinator is refused: TRANSACTION_COORDINATOR_FENCED. In transactions of version 2 a marker
  carries the next epoch, so a marker with the epoch that still writes is late: INVALID_PRODUCER_EPOCH. The same marker
  again is harmless and allowed, and so is the last possible epoch, which cannot be bumped.

A transaction is unstable while it is open, and then until its marker is below the high watermark.

`admit` and `check_marker` decide, `update` changes state and is the same for live traffic and for replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from penstock.core.types import NO_OFFSET, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, TopicPartition
from penstock.log.state.origin import Origin
from penstock.protocol.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_ABORT, EndMarker

BATCHES_KEPT = 5
_SEQUENCE_MASK = 0x7FFFFFFF
_LAST_EPOCH = 0x7FFF
_FIRST_VERSION_WITH_EPOCH_PER_TRANSACTION = 2
NO_COORDINATOR_EPOCH = -1
_NOTHING: Mapping[int, int] = MappingProxyType({})


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # the marker's
    last_stable_offset: int  # every transaction before it was decided once the marker stood
    is_aborted: bool


class ProducerStateEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "is_from_snapshot",
        "last_timestamp",
        "marker_count",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_transaction_first_offset: int = NO_OFFSET,
        batches: list[BatchMetadata] | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_transaction_first_offset = current_transaction_first_offset
        self.batches: list[BatchMetadata] = batches or []
        self.marker_count = 0  # since the log was opened
        self.is_from_snapshot = False  # the log may have batches before the first of these

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1][0] + 1) & _SEQUENCE_MASK if self.batches else 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def copy(self) -> ProducerStateEntry:
        """Costs 1 us."""
        twin = ProducerStateEntry(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.current_transaction_first_offset,
            self.batches.copy(),
        )
        twin.marker_count, twin.is_from_snapshot = self.marker_count, self.is_from_snapshot
        return twin

    def set_epoch(self, producer_epoch: int) -> None:
        """Sequences begin again with each epoch, so batches of the old epoch do not matter any more."""
        self.producer_epoch = producer_epoch
        self.batches.clear()
        self.is_from_snapshot = False


# Finds the batches of the log before the oldest batch of an entry, the oldest first.
FindEarlier = Callable[[ProducerStateEntry], list[BatchMetadata]]


class ProducerState:
    """The producer state of one partition. It has the batches before `end_offset`."""

    __slots__ = (
        "_find_earlier",
        "end_offset",
        "entries",
        "open_transactions",
        "topic_partition",
        "unreplicated_transactions",
    )

    def __init__(self, topic_partition: TopicPartition, end_offset: int = 0) -> None:
        self.topic_partition = topic_partition
        self.end_offset = end_offset
        self.entries: dict[int, ProducerStateEntry] = {}
        self.open_transactions: dict[int, int] = {}  # first offset -> producer id, oldest first
        self.unreplicated_transactions: dict[int, int] = {}  # first offset -> offset of the marker
        self._find_earlier: FindEarlier | None = None

    def load(
        self,
        entries: list[ProducerStateEntry],
        end_offset: int,
        find_earlier: FindEarlier | None = None,
        unreplicated: Mapping[int, int] = _NOTHING,
    ) -> None:
        """Loads from a snapshot or a mark. Without `find_earlier` only the newest batch of each producer in a snapshot
        is known by its number. `remove_expired` removes expired producers later: later batches in the log may be of the
        same producer, and be younger.
        """
        self._find_earlier = find_earlier
        self.entries = {entry.producer_id: entry for entry in entries}
        self.open_transactions = dict(
            sorted(
                (entry.current_transaction_first_offset, entry.producer_id)
                for entry in self.entries.values()
                if entry.current_transaction_first_offset != NO_OFFSET
            )
        )
        self.unreplicated_transactions = dict(unreplicated)
        self.end_offset = end_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is not replicated; None
        without any.
        """
        oldest_open = next(iter(self.open_transactions), None)
        if not self.unreplicated_transactions:
            return oldest_open
        oldest = min(self.unreplicated_transactions)
        return oldest if oldest_open is None else min(oldest, oldest_open)

    def note_high_watermark(self, high_watermark: int) -> None:
        self.unreplicated_transactions = {
            first_offset: last_offset
            for first_offset, last_offset in self.unreplicated_transactions.items()
            if last_offset >= high_watermark
        }

    def active(self) -> list[ProducerStateEntry]:
        return list(self.entries.values())

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.producer_epoch == producer_epoch
            and entry.current_transaction_first_offset != NO_OFFSET
        )

    def count_markers(self, producer_id: int) -> int:
        """The number of the producer's markers so far. Another number means that a transaction may have ended."""
        entry = self.entries.get(producer_id)
        return 0 if entry is None else entry.marker_count

    def next_sequence(self, producer_id: int, producer_epoch: int) -> int | None:
        """The next sequence of the producer in that epoch; None where nothing of the epoch has come."""
        entry = self.entries.get(producer_id)
        return None if entry is None or entry.producer_epoch != producer_epoch else entry.next_sequence

    def admit(self, header: BatchHeader, origin: Origin, transaction_version: int = 0) -> BatchMetadata | None:
        """None when the batch may be appended; the stored batch when it repeats one of the last five; ApiError
        otherwise.

        Costs 0.8 us when the batch has the next sequence. Tried: the search for a duplicate first, then the check (3
        us). Shown by the produce rows of `make bench`.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            if transaction_version >= _FIRST_VERSION_WITH_EPOCH_PER_TRANSACTION and header.base_sequence > 0:
                raise self._out_of_order(header, 0)
            return None
        if origin is Origin.CLIENT:
            if (
                header.base_sequence == entry.next_sequence
                and header.producer_epoch == entry.producer_epoch
                and (entry.current_transaction_first_offset == NO_OFFSET or header.attributes & TRANSACTIONAL_FLAG)
            ):
                return None  # the next sequence is new: those of the last five lie behind it
            duplicate = _find_duplicate(entry, header)
            if duplicate is None and entry.is_from_snapshot and self._recall(entry, header):
                duplicate = _find_duplicate(entry, header)
            if duplicate is not None:
                return duplicate
        self._check(entry, header, origin)
        return None

    def _recall(self, entry: ProducerStateEntry, header: BatchHeader) -> bool:
        """Whether the search found earlier batches, of which this may be one. The search happens once."""
        batches = entry.batches
        may_be_one = (
            0 < len(batches) < BATCHES_KEPT
            and header.producer_epoch == entry.producer_epoch
            and is_sequence_before(header.base_sequence, batches[0].base_sequence)
        )
        if not may_be_one or self._find_earlier is None:
            return False
        earlier = self._find_earlier(entry)
        entry.is_from_snapshot = False
        batches[:0] = earlier
        return bool(earlier)

    def _check(self, entry: ProducerStateEntry, header: BatchHeader, origin: Origin) -> None:
        if header.producer_epoch < entry.producer_epoch:
            raise self._stale_epoch(entry, header.producer_epoch)
        if header.is_control:
            return
        if origin is Origin.CLIENT:
            expected = entry.next_sequence if header.producer_epoch == entry.producer_epoch else 0
            if header.base_sequence != expected:
                raise self._out_of_order(header, expected)
        if entry.current_transaction_first_offset != NO_OFFSET and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} of {self.topic_partition} writes outside its open transaction",
            )

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """ApiError unless this marker may end the producer's open transaction, or may come without one."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        if producer_epoch < entry.producer_epoch:
            raise self._stale_epoch(entry, producer_epoch)
        is_bump_missing = (
            transaction_version >= _FIRST_VERSION_WITH_EPOCH_PER_TRANSACTION
            and producer_epoch == entry.producer_epoch
            and producer_epoch != _LAST_EPOCH
        )
        if is_bump_missing and entry.current_transaction_first_offset != NO_OFFSET:
            raise self._stale_epoch(entry, producer_epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker for producer {producer_id} of {self.topic_partition} comes with coordinator epoch "
                f"{coordinator_epoch}, but epoch {entry.coordinator_epoch} has taken over",
            )

    def _stale_epoch(self, entry: ProducerStateEntry, producer_epoch: int) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {entry.producer_id} of {self.topic_partition} comes with epoch {producer_epoch}, "
            f"but epoch {entry.producer_epoch} has taken over",
        )

    def _out_of_order(self, header: BatchHeader, expected: int) -> ApiError:
        return ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} (epoch {header.producer_epoch}) of {self.topic_partition} sends "
            f"sequence {header.base_sequence} where {expected} is next",
        )

    def update(
        self, header: BatchHeader, base_offset: int, max_timestamp: int, marker: EndMarker | None = None
    ) -> CompletedTransaction | None:
        """Takes in a batch that now stands in the log at `base_offset`; `marker` when it is a control batch. Returns
        the transaction that it ended, if any.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerStateEntry(header.producer_id)
        if header.producer_epoch != entry.producer_epoch:
            entry.set_epoch(header.producer_epoch)
        attributes, delta = header.attributes, header.last_offset_delta
        if attributes & CONTROL_FLAG:
            return self._end_transaction(entry, marker, base_offset, max_timestamp)
        batches = entry.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(BatchMetadata(header.last_sequence, base_offset + delta, delta, max_timestamp))
        entry.last_timestamp = max_timestamp
        if attributes & TRANSACTIONAL_FLAG and entry.current_transaction_first_offset == NO_OFFSET:
            entry.current_transaction_first_offset = base_offset
            self.open_transactions[base_offset] = header.producer_id
        return None

    def _end_transaction(
        self, entry: ProducerStateEntry, marker: EndMarker | None, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """No marker means that compaction has emptied the batch: the transaction is long over."""
        if marker is None:
            return None
        first_offset = entry.current_transaction_first_offset
        entry.current_transaction_first_offset = NO_OFFSET
        entry.marker_count += 1
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        if first_offset == NO_OFFSET:
            return None
        self.open_transactions.pop(first_offset, None)
        self.unreplicated_transactions[first_offset] = offset
        last_stable_offset = next(iter(self.open_transactions), offset + 1)
        is_aborted = marker.control_type == CONTROL_ABORT
        return CompletedTransaction(entry.producer_id, first_offset, offset, last_stable_offset, is_aborted)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        expired = [key for key, entry in self.entries.items() if _is_expired(entry, now_ms, expiration_ms)]
        for producer_id in expired:
            del self.entries[producer_id]


def sequence_after(sequence: int) -> int:
    return (sequence + 1) & _SEQUENCE_MASK


def is_sequence_before(sequence: int, other: int) -> bool:
    """By the shorter way around: after 2^31-1 comes 0."""
    return 0 < (other - sequence) & _SEQUENCE_MASK <= _SEQUENCE_MASK // 2


def _find_duplicate(entry: ProducerStateEntry, header: BatchHeader) -> BatchMetadata | None:
    if entry.producer_epoch != header.producer_epoch:
        return None
    last_sequence, delta = header.last_sequence, header.last_offset_delta
    for batch in entry.batches:
        if batch.last_sequence == last_sequence and batch.offset_delta == delta:
            return batch
    return None


def _is_expired(entry: ProducerStateEntry, now_ms: int, expiration_ms: int) -> bool:
    """A producer inside a transaction is never forgotten: its marker is still to come."""
    return entry.current_transaction_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
