"""Decides the read of one topic for a query: columns, offsets, keys, and notices for the user.

The decisions take the cluster's answers; `plan_read` gets the offsets of times from the cluster, where there are some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.core.words.plurals import plural
from penstock.pipelines.options import ANY_LATENESS_MS
from penstock.pipelines.payloads.formats import PayloadKind
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.sql.pushdown import Pushdown
from penstock.pipelines.tables.bounds import Bounds, OffsetsAt, below_latest, decide_lateness, plan_reads
from penstock.pipelines.tables.clocks import Clock, bounds_at
from penstock.pipelines.tables.table import Table

_MINUTE_MS = 60_000


@dataclass(frozen=True)
class TableRead:
    table: Table
    columns: tuple[str, ...]  # in the table's order
    bounds: Bounds
    ranges: tuple[OffsetRange, ...]
    held: tuple[OffsetRange, ...]  # what the topic's partitions held when the question was asked
    limit: int | None = None
    lateness_ms: int = 0
    is_lateness_sure: bool = True

    @property
    def keys(self) -> frozenset[bytes] | None:
        """Raw keys of the rows that can be wanted, where equal text is equal bytes."""
        if self.bounds.keys is None or self.table.key.kind is not PayloadKind.TEXT:
            return None
        try:
            return frozenset(key.encode() for key in self.bounds.keys if isinstance(key, str))
        except UnicodeEncodeError:
            return None  # half of a surrogate pair: no bytes are that text, and Spark may compare it in its own way

    @property
    def offsets(self) -> int:
        return sum(part.size for part in self.ranges)

    @property
    def held_offsets(self) -> int:
        return sum(part.size for part in self.held)


def plan_read(
    table: Table,
    wanted: Pushdown,
    held: Iterable[OffsetRange],
    offsets_at: OffsetsAt,
    config_of: Callable[[str], Mapping[str, str]],
    *,
    allowance_ms: int,
    clock: Clock = Clock.NONE,
) -> TableRead:
    """Bounds on the latest rows of keys are not pushed below the choice of the latest, see `below_latest`."""
    bounds = bounds_at(wanted.bounds, clock)
    limit = wanted.limit
    if table.is_latest:
        bounds, limit = below_latest(bounds), None
    held = tuple(sorted(held))
    columns = tuple(column.name for column in table.columns if wanted.columns is None or column.name in wanted.columns)
    lateness_ms, is_sure = 0, True
    if bounds.timestamps_us.end is not None:
        lateness_ms, is_sure = decide_lateness(config_of(table.topic), allowance_ms)
    ranges = plan_reads(bounds, held, offsets_at, lateness_ms)
    return TableRead(table, columns, bounds, tuple(ranges), held, limit, lateness_ms, is_sure)


def notices_of(read: TableRead) -> list[str]:
    """Notices for the user about the answer."""
    notices = []
    if "inferred" in read.table.note:
        notices.append(f"the columns of {read.table.name} are {read.table.note}")
    if not read.is_lateness_sure:
        notices.append(
            f"{read.table.name}: records that came more than {describe_duration(read.lateness_ms)} later than their"
            " neighbours of the same time may be missing, because the question ends at a time and producers set the"
            " times of this topic; lateness allows for more, and none for any"
        )
    return notices


def explain_read(read: TableRead) -> str:
    """The read in words, a few lines."""
    names = [column.name for column in read.table.columns]
    lines = [f"{read.table.name}: {read.table.note}" if read.table.note else read.table.name]
    shown = ", ".join(read.columns) or "none, rows are counted"
    lines.append(f"  columns: {shown} ({len(read.columns)} of {len(names)})")
    partitions = {part.partition for part in read.ranges}
    share = f", {100 * read.offsets / read.held_offsets:.3g} %" if read.held_offsets else ""
    lines.append(
        f"  reads {read.offsets:,} of {read.held_offsets:,} offsets{share},"
        f" in {len(partitions)} of {plural(len(read.held), 'partition')}"
    )
    lines += [
        f"    partition {part.partition.partition}: {part.start} to {part.end}" for part in read.ranges[:_MOST_SHOWN]
    ]
    if len(read.ranges) > _MOST_SHOWN:
        lines.append(f"    and {plural(len(read.ranges) - _MOST_SHOWN, 'more partition')}")
    lines += [f"  {said}" for said in _limits_of(read)]
    return "\n".join(lines)


_MOST_SHOWN = 12


def _limits_of(read: TableRead) -> list[str]:
    said = []
    times = read.bounds.timestamps_us
    if times.start is not None:
        said.append(f"from {describe_time(times.start)}")
    if times.end is not None:
        said.append(f"until {describe_time(times.end)}, {_describe_lateness(read)}")
    if read.keys is not None:
        said.append(f"keys: {', '.join(sorted(map(repr, read.bounds.keys or ()))[:5])}; others are not decoded")
    if read.limit is not None:
        said.append(f"stops after {plural(read.limit, 'row')}")
    if read.table.is_latest:
        said.append("keeps the latest row of each key; bounds on offsets and times are applied after that")
    return said


def _describe_lateness(read: TableRead) -> str:
    if read.lateness_ms >= ANY_LATENESS_MS:
        return "and everything behind it, since records may come however late"
    allowed = f"and {describe_duration(read.lateness_ms)} of late records"
    if read.is_lateness_sure:
        return f"{allowed}, by the topic's settings"
    return f"{allowed}, which is an allowance for those that came later than their neighbours of the same time"


def describe_left_out(table: str, count: int) -> str:
    does = "does not decode and was" if count == 1 else "do not decode and were"
    return f"{table}: {plural(count, 'record')} {does} left out"


def describe_time(time_us: int) -> str:
    try:
        return str(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us))
    except OverflowError:
        return f"{time_us} µs"


def describe_duration(duration_ms: int) -> str:
    if duration_ms % _MINUTE_MS == 0 and duration_ms:
        minutes = duration_ms // _MINUTE_MS
        return f"{minutes} minute" if minutes == 1 else f"{minutes} minutes"
    return f"{duration_ms / 1000:g} s"
