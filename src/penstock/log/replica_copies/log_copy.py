"""A copy of a log in another directory, which follows the log until the log moves to it.

The copy has the same segments with the same bytes, so the log's state in memory (offsets, producers, transactions,
leader epochs, indexes) is true of the copy as well. That is why a log can change its directory in one turn of the loop:
only paths change, and the durable end.

Rules:
- `capture` compares the log with the copied part and gives the next step. The copy removes a segment that retention or
  compaction removed; a segment that compaction replaced, which is another object, is copied again.
- A truncated log is copied again from its beginning. That comes after an election at most.
- `durable_end`: everything before it is durable in the copy, together with the leader epochs. A power failure may take
  the later part. Nothing counts as durable any more when segments are removed.

The owner's thread calls all of this. Steps run in any thread, one at a time, and `settle` follows each.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.log.formats import names
from penstock.log.formats.metadata_files import Moved, encode_moved, encode_partition_metadata
from penstock.log.replica_copies.steps import Copying, Failure, Making, Part, Syncing
from penstock.log.state.contents import LogContents
from penstock.log.storage.segment import Segment

# The minimum that a small segment counts for: its files cost some fsyncs.
_LEAST_COST = 64 * 1024


@dataclass(slots=True, eq=False)
class _Copied:
    source: Segment
    is_begun: bool = False  # its files exist
    size: int = 0
    index_counts: tuple[int, int] = (0, 0)
    is_whole: bool = False  # sealed, and all of its files are complete


class LogCopy:
    def __init__(self, contents: LogContents, directory: str) -> None:
        self.directory = directory
        self.end_offset = contents.log_start_offset  # the copy has everything before it
        self.durable_end: int | None = None
        self._contents = contents
        self._truncation_count = contents.truncation_count
        self._change_count = -1
        self._segments: dict[int, _Copied] = {}
        self._snapshots: set[int] = set()

    @property
    def size(self) -> int:
        return sum(copied.size for copied in self._segments.values())

    @property
    def offset_lag(self) -> int:
        """The number of records that the copy lacks, as far as the offset index shows."""
        contents, end = self._contents, self.end_offset
        for copied in self._segments.values():
            if not copied.is_whole and copied.size < copied.source.size:
                end = max(end, copied.source.indexes.end_offset_before(copied.size))
                break
        return max(contents.log_end_offset - end, 0)

    def making(self, source: str) -> Making:
        """`source` is the data directory of the log."""
        contents = self._contents
        small_files = {
            names.PARTITION_METADATA: encode_partition_metadata(contents.topic_id),
            names.MOVED: encode_moved(Moved(source, is_final=False)),
        }
        return Making(contents.files, self.directory, small_files)

    # ---- following the log

    def capture(self, most_bytes: int) -> Copying:
        """The next step of the copy towards the log, up to a number of bytes. An empty step means that nothing is left
        to do.
        """
        contents = self._contents
        step = Copying(contents.files, contents.directory, self.directory)
        if contents.truncation_count != self._truncation_count:
            self._begin_anew(step)
        if contents.segments.change_count != self._change_count:
            self._drop_gone(step)
            self._change_count = contents.segments.change_count
        if step.gone:
            # A power failure may take some of these renames and not others, and leave a hole.
            self.durable_end = None
        step.snapshots = [offset for offset in contents.snapshots.offsets if offset not in self._snapshots]
        step.end_offset = contents.log_end_offset
        for segment in contents.segments:
            copied = self._segments.get(segment.base_offset) or _Copied(segment)
            self._segments[segment.base_offset] = copied
            if copied.is_whole:
                continue
            part = self._capture_part(copied, most_bytes)
            if part is not None:
                step.parts.append(part)
                most_bytes -= max(part.end - part.start, _LEAST_COST)
            if (copied.size if part is None else part.end) < segment.size:
                step.end_offset = max(segment.base_offset, contents.log_start_offset)
                step.is_last = False
                break
        return step

    def _begin_anew(self, step: Copying) -> None:
        self._truncation_count = self._contents.truncation_count
        self._change_count = -1
        for base_offset in self._segments:
            step.gone += _file_names(base_offset)
        step.gone += [names.segment_file(offset, names.SNAPSHOT) for offset in sorted(self._snapshots)]
        self._segments = {}
        self._snapshots = set()
        self.end_offset = self._contents.log_start_offset

    def _drop_gone(self, step: Copying) -> None:
        contents = self._contents
        current = {segment.base_offset: segment for segment in contents.segments}
        for base_offset, copied in list(self._segments.items()):
            if current.get(base_offset) is not copied.source:
                step.gone += _file_names(base_offset)
                del self._segments[base_offset]
        for offset in sorted(self._snapshots.difference(contents.snapshots.offsets)):
            step.gone.append(names.segment_file(offset, names.SNAPSHOT))
            self._snapshots.discard(offset)

    def _capture_part(self, copied: _Copied, most_bytes: int) -> Part | None:
        segment, is_new = copied.source, not copied.is_begun
        end = min(segment.size, copied.size + max(most_bytes, 0))
        if not segment.is_active:
            side_files: list[str] = []
            if end == segment.size:
                side_files = _file_names(segment.base_offset, names.OFFSET_INDEX, names.TIME_INDEX)
                if segment.base_offset in self._contents.aborted:
                    side_files += _file_names(segment.base_offset, names.TRANSACTION_INDEX)
            elif end == copied.size:
                return None
            return Part(segment.base_offset, segment.open_file(), copied.size, end, is_new, None, side_files)
        entries = segment.indexes.encode_from(*copied.index_counts)
        if end == copied.size and entries.counts == copied.index_counts and not is_new:
            return None
        return Part(segment.base_offset, segment.open_file(), copied.size, end, is_new, entries, ())

    def settle(self, step: Copying) -> None:
        """Call after a successful `run`. The step has failed all the same if the log ends early without a
        truncation.
        """
        if self._contents.truncation_count != self._truncation_count:
            # The copied bytes may belong neither to the old log nor to the new log; the names of the files are known
            # all the same, so that the next capture removes them.
            self._note(step)
            return
        if step.is_torn:
            step.failure = Failure("the log ends before its size", is_of_target=False)
            return
        self._note(step)
        self.end_offset = step.end_offset

    def _note(self, step: Copying) -> None:
        for part in step.parts:
            copied = self._segments[part.base_offset]
            copied.is_begun, copied.size, copied.is_whole = True, part.end, bool(part.side_files)
            if part.entries is not None:
                copied.index_counts = part.entries.counts
        self._snapshots.update(step.snapshots)

    # ---- durability, and the end

    def syncing(self) -> Syncing:
        """The sync of everything copied so far. `note_synced` must follow."""
        paths = [
            f"{self.directory}/{name}"
            for base_offset, copied in self._segments.items()
            if not copied.is_whole
            for name in _file_names(base_offset, names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
        ]
        contents = self._contents
        return Syncing(contents.files, self.directory, paths, contents.epoch_file.epochs.encode(), self.end_offset)

    def note_synced(self, step: Syncing) -> None:
        if self._contents.truncation_count == self._truncation_count:
            self.durable_end = step.end_offset

    def take_over(self, directory: str) -> None:
        """The log moves to `directory`, which is the copy's name from now on. Everything must be copied."""
        contents = self._contents
        assert self.durable_end is not None
        assert self._truncation_count == contents.truncation_count
        for segment in contents.segments:
            copied = self._segments[segment.base_offset]
            assert copied.source is segment
            assert copied.size == segment.size
            segment.relocate(directory, copied.index_counts if segment.is_active else None)
        contents.snapshots.relocate(directory)
        contents.aborted.relocate(directory)
        contents.epoch_file.relocate(directory)
        contents.directory = self.directory = directory
        contents.recovery_point = min(contents.recovery_point, self.durable_end)
        contents.durable_names = -1
        contents.is_place_durable = False
        contents.truncation_count += 1  # a running flush syncs the files that are left behind


def _file_names(base_offset: int, *suffixes: str) -> list[str]:
    return [names.segment_file(base_offset, suffix) for suffix in suffixes or names.SEGMENT_SUFFIXES]
