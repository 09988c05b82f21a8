"""Producer state of a moment ago, in memory: where a replay begins after the end of a log was cut off.

A follower cuts off what its leader does not have, on the event loop. All that stays of the active segment was replayed
then, since the newest snapshot on disk is mostly at the beginning of the segment: 0.94 s for 324 MB. A cut is hardly
ever below the high watermark, so the state is marked near it while the log grows: a mark every so many bytes, of which
the newest at or below the high watermark stays, and all above it. A cut replays what lies between a mark and the cut.

A log with one replica is never cut. It gets marks at a start alone, if its high watermark lagged behind its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.log.state.producer_state import ProducerStateEntry

# A replay of batches as small as they get (70 bytes) takes 10 ms for so many bytes.
_LEAST_INTERVAL = 256 * 1024
# To copy an entry takes 1 us. This makes it 1.2 ms for 10 MB, however many producers there are.
_INTERVAL_PER_ENTRY = 8 * 1024
# Where the high watermark does not move, every second mark goes, and the next ones are twice as far apart.
_MOST_MARKS = 16
# Of all marks of a log: 20 MB. A log that knows half as many producers, who could write at once, gets no marks: a copy
# would take 10 ms of the event loop, and two of them are the least that helps.
_MOST_ENTRIES = 20_000
_LEAST_MARKS = 2


class ProducerMark(NamedTuple):
    offset: int  # every batch before it is reflected
    entries: list[ProducerStateEntry]
    unreplicated: Mapping[int, int]  # transactions whose markers were above the high watermark

    def copies(self) -> list[ProducerStateEntry]:
        return [entry.copy() for entry in self.entries]


class ProducerMarks:
    __slots__ = ("_interval", "_marks", "_position", "_segment", "_spacing")

    def __init__(self) -> None:
        self._marks: list[ProducerMark] = []  # by offset
        self._segment = -1  # the base offset of the segment that the last mark was made in
        self._position = 0  # the size of the segment then
        self._interval = _LEAST_INTERVAL
        self._spacing = 1

    def is_due(self, segment: int, position: int) -> bool:
        return segment != self._segment or position - self._position >= self._interval

    def make(
        self,
        offset: int,
        segment: int,
        position: int,
        entries: Collection[ProducerStateEntry],
        unreplicated: Mapping[int, int],
    ) -> None:
        """The state is that of `offset`, which stands at `position` of the segment with the base offset `segment`."""
        marks, room = self._marks, min(_MOST_MARKS, _MOST_ENTRIES // (len(entries) + 1))
        if len(marks) >= room:
            del marks[1::2]
            self._spacing *= 2
        if room >= _LEAST_MARKS and (not marks or marks[-1].offset < offset):
            marks.append(ProducerMark(offset, [entry.copy() for entry in entries], dict(unreplicated)))
        self._segment, self._position = segment, position
        self._interval = self._spacing * max(_LEAST_INTERVAL, _INTERVAL_PER_ENTRY * len(entries))

    def note_high_watermark(self, high_watermark: int) -> None:
        """Of the marks that no cut goes below, the newest is enough."""
        marks = self._marks
        while len(marks) > 1 and marks[1].offset <= high_watermark:
            del marks[0]
            self._spacing = 1

    def find(self, start_offset: int, end_offset: int) -> ProducerMark | None:
        """The newest between the two."""
        for mark in reversed(self._marks):
            if start_offset <= mark.offset <= end_offset:
                return mark
        return None

    def cut(self, end_offset: int) -> None:
        """What is past `end_offset` is gone from the log."""
        self._marks = [mark for mark in self._marks if mark.offset <= end_offset]
        self._segment = -1
