"""The segments of a partition in the order of their base offsets; the last is the active segment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from penstock.log.storage.segment import Segment


class Segments:
    __slots__ = ("__weakref__", "_base_offsets", "_sealed_size", "_segments", "active", "change_count")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self.change_count = 0  # the number of additions and removals of segments, and so of changes of file names
        self._note_change()

    def _note_change(self) -> None:
        self.change_count += 1
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self._sealed_size = sum(segment.size for segment in self._segments[:-1])
        self.active = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size(self) -> int:
        return self._sealed_size + self.active.size

    def index_of(self, offset: int) -> int:
        """The segment that holds `offset`: the last that begins at or before it."""
        return max(bisect_right(self._base_offsets, offset) - 1, 0)

    def at(self, index: int) -> Segment | None:
        return self._segments[index] if index < len(self._segments) else None

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and all after it."""
        return self._segments[self.index_of(offset) :]

    def end_offset_of(self, index: int, log_end_offset: int) -> int:
        """The end of a segment's offsets: the base of the next segment."""
        return self._base_offsets[index + 1] if index + 1 < len(self._segments) else log_end_offset

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._note_change()

    def remove(self, segments: Iterable[Segment]) -> None:
        gone = {segment.base_offset for segment in segments}
        self._segments = [segment for segment in self._segments if segment.base_offset not in gone]
        self._note_change()

    def replace_all(self, segments: Iterable[Segment]) -> None:
        self._segments = list(segments)
        self._note_change()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
