"""The rules of compaction for batches of transactions. Takes batches in the order of their offsets.

Records of an aborted transaction are removed at once. A marker stays as long as the cleaning meets a batch of its
transaction before it: a reader that finds the batch must find the marker. After that the marker is removed at its
delete horizon, like a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.log.state.transaction_index import AbortedTransaction
from penstock.protocol.batch import BatchHeader
from penstock.protocol.records import CONTROL_ABORT, CONTROL_COMMIT, EndMarker


class TransactionFilter:
    """One pass over a log. `retained` collects the index entries that the cleaned segment still needs."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # In reverse: the next one is last.
        self._pending = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._ongoing_aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()  # producers whose aborted transaction had a batch
        self._ongoing_committed: set[int] = set()
        self.retained: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the records of a data batch were aborted."""
        if not header.is_transactional:
            return False
        self._begin(header.last_offset)
        if header.producer_id in self._ongoing_aborted:
            self._seen.add(header.producer_id)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def is_marker_over(self, header: BatchHeader, marker: EndMarker | None, is_empty: bool) -> bool:
        """Whether nothing of a control batch's transaction remains before it. An empty control batch was cleaned
        already.
        """
        self._begin(header.last_offset)
        if is_empty:
            return True
        if marker is None:
            return False
        if marker.control_type == CONTROL_ABORT:
            aborted = self._ongoing_aborted.pop(header.producer_id, None)
            if aborted is not None and header.producer_id in self._seen:
                self._seen.discard(header.producer_id)
                self.retained.append(aborted)
                return False
            return True
        if marker.control_type == CONTROL_COMMIT and header.producer_id in self._ongoing_committed:
            self._ongoing_committed.discard(header.producer_id)
            return False
        return marker.control_type == CONTROL_COMMIT

    def _begin(self, offset: int) -> None:
        while self._pending and self._pending[-1].first_offset <= offset:
            aborted = self._pending.pop()
            self._ongoing_aborted.setdefault(aborted.producer_id, aborted)

    def take_retained(self) -> list[AbortedTransaction]:
        taken, self.retained = self.retained, []
        return taken
