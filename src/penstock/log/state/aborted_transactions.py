"""The aborted transactions of a partition: one index for each segment that has any, otherwise none.

The index of the active segment is kept in memory and goes to disk when the segment is sealed; after a crash it is
replayed from the log. The indexes of sealed segments are read when a reader needs them, and the index cache may evict
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from penstock.log.formats import names
from penstock.log.state.producer_state import CompletedTransaction
from penstock.log.state.transaction_index import TRANSACTION_ENTRY_SIZE, AbortedTransaction, TransactionIndex
from penstock.log.storage.indexes import CorruptIndexError
from penstock.log.storage.open_files import OpenResources

logger = logging.getLogger(__name__)


class _SegmentIndex:
    """`index` is None while only the file has it; a writable index is never evicted. The file `is_current` until a
    marker comes.
    """

    __slots__ = ("index", "is_current", "is_writable", "recently_used")

    def __init__(self, index: TransactionIndex | None = None) -> None:
        self.index = index
        self.is_writable = index is not None
        self.is_current = index is None
        self.recently_used = False

    def evict(self) -> None:
        self.index = None


class AbortedTransactions:
    __slots__ = ("_directory", "_resources", "_segments")

    def __init__(self, resources: OpenResources, directory: str, base_offsets: Iterable[int] = ()) -> None:
        """`base_offsets`: of the segments with an index on disk."""
        self._resources = resources
        self._directory = directory
        # In the order of the log: a new segment comes last.
        self._segments = {base_offset: _SegmentIndex() for base_offset in sorted(base_offsets)}

    def __bool__(self) -> bool:
        """Whether the log has any: a log without aborted transactions costs no more than this."""
        return bool(self._segments)

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._segments

    def path(self, base_offset: int) -> str:
        return f"{self._directory}/{names.segment_file(base_offset, names.TRANSACTION_INDEX)}"

    def relocate(self, directory: str) -> None:
        """The files of sealed segments lie in another directory, too."""
        self._directory = directory
        for segment in self._segments.values():
            segment.is_current = not segment.is_writable

    # ---- write

    def note(self, base_offset: int, completed: CompletedTransaction) -> None:
        """Adds a transaction whose marker stands in the segment; committed transactions and sealed segments are
        complete already.
        """
        if not completed.is_aborted:
            return
        segment = self._segments.get(base_offset)
        if segment is None:
            segment = self._segments[base_offset] = _SegmentIndex(TransactionIndex(base_offset))
        if segment.is_writable and segment.index is not None:
            segment.index.append(AbortedTransaction(*completed[:4]))
            segment.is_current = False

    def open(self, base_offset: int) -> bool:
        """Makes a sealed segment's index writable again; False when its file was damaged, and is now removed: the
        segment must be replayed.
        """
        segment = self._segments.get(base_offset)
        if segment is None or segment.is_writable:
            return True
        try:
            segment.index = self._read(base_offset)
        except CorruptIndexError as error:
            logger.warning("dropping %s: %s", self.path(base_offset), error)
            self._drop(base_offset)
            return False
        segment.is_writable = True
        self._resources.indexes.remove(segment)
        return True

    def write_out(self, base_offset: int) -> None:
        """The file that `seal` writes, while markers may still come."""
        segment = self._segments.get(base_offset)
        if segment is not None and segment.index is not None and not segment.is_current:
            self._resources.files.write_file(self.path(base_offset), segment.index.encode())

    def seal(self, base_offset: int, *, is_written_out: bool = False) -> bool:
        """No marker follows in the segment. True when a file was written, which is not durable yet."""
        segment = self._segments.get(base_offset)
        if segment is None or not segment.is_writable or segment.index is None:
            return False
        is_written = not segment.is_current
        if is_written and not is_written_out:
            self._resources.files.write_file(self.path(base_offset), segment.index.encode())
        self._note_file(segment, segment.index)
        return is_written

    def seal_before(self, base_offset: int) -> None:
        """After replay: seals all but the active segment."""
        for sealed in [known for known in self._segments if known < base_offset]:
            self.seal(sealed)

    def _note_file(self, segment: _SegmentIndex, index: TransactionIndex) -> None:
        """The file holds all of the index, which may be evicted from now on."""
        segment.index, segment.is_writable, segment.is_current = index, False, True
        self._resources.indexes.add(segment, TRANSACTION_ENTRY_SIZE * len(index))

    # ---- cut

    def truncate(self, base_offset: int, offset: int) -> bool:
        """Removes the markers at and past `offset` in the segment that holds it; False as in `open`."""
        if not self.open(base_offset):
            return False
        segment = self._segments.get(base_offset)
        if segment is not None and segment.index is not None:
            self._resources.files.unlink(self.path(base_offset))
            segment.is_current = False
            segment.index.truncate(offset)
            if not len(segment.index):
                del self._segments[base_offset]
        return True

    def forget(self, base_offsets: Iterable[int]) -> None:
        """Their segments are removed, with the files."""
        for base_offset in base_offsets:
            segment = self._segments.pop(base_offset, None)
            if segment is not None:
                self._resources.indexes.remove(segment)

    def adopt(self, base_offset: int) -> None:
        """A segment has been put in place together with an index file."""
        self.forget((base_offset,))
        self._segments = dict(sorted([*self._segments.items(), (base_offset, _SegmentIndex())]))

    def drop_from(self, base_offset: int) -> None:
        """Recovery trusts no file from here on: it replays the log."""
        for known in [known for known in self._segments if known >= base_offset]:
            self._drop(known)

    def _drop(self, base_offset: int) -> None:
        self._resources.files.unlink(self.path(base_offset))
        self.forget((base_offset,))

    def close(self) -> None:
        self.forget(list(self._segments))

    # ---- find

    def collect(
        self,
        first_segment: int,
        start_offset: int,
        end_offset: int,
        rebuild: Callable[[int], TransactionIndex],
    ) -> list[AbortedTransaction]:
        """The transactions that overlap [start_offset, end_offset), by first offset, where `first_segment` holds the
        start. `rebuild` makes a damaged index again.
        """
        overlapping: list[AbortedTransaction] = []
        for base_offset in list(self._segments):
            if base_offset >= first_segment and self._load(base_offset, rebuild).collect(
                start_offset, end_offset, overlapping
            ):
                break
        overlapping.sort(key=lambda aborted: aborted.first_offset)
        return overlapping

    def _load(self, base_offset: int, rebuild: Callable[[int], TransactionIndex]) -> TransactionIndex:
        segment = self._segments[base_offset]
        segment.recently_used = True
        if segment.index is not None:
            return segment.index
        try:
            index = segment.index = self._read(base_offset)
        except CorruptIndexError as error:
            logger.warning("rebuilding %s: %s", self.path(base_offset), error)
            index = rebuild(base_offset)
            self._resources.files.write_file(self.path(base_offset), index.encode())
            self._note_file(segment, index)
            return index
        self._resources.indexes.add(segment, TRANSACTION_ENTRY_SIZE * len(index))
        return index

    def _read(self, base_offset: int) -> TransactionIndex:
        try:
            return TransactionIndex.decode(base_offset, self._resources.files.read_file(self.path(base_offset)))
        except FileNotFoundError as error:
            raise CorruptIndexError("the file is gone") from error
