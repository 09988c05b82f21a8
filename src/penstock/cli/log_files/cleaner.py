"""How far compaction has come, from the files of a data directory alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli.errors import UsageError
from penstock.cli.output import Table
from penstock.cli.text import format_size
from penstock.core.types import TopicPartition
from penstock.log.formats import names
from penstock.log.formats.checkpoints import decode_offsets


class CleanerProgress(NamedTuple):
    topic: str
    partition: int
    cleaned_end: int  # the log is compacted up to here
    segments: int
    clean_bytes: int
    dirty_bytes: int  # sealed segments from there on; what is in the active one cannot be compacted yet
    active_bytes: int

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def read_progress(directory: Path, topics: frozenset[str] | None) -> list[CleanerProgress]:
    """The progress of the partitions that were compacted at least once."""
    path = directory / names.CLEANER_OFFSETS
    try:
        offsets = decode_offsets(path.read_bytes())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return [
        _measure(directory, key, offset)
        for key, offset in sorted(offsets.items())
        if topics is None or key.topic in topics
    ]


def _measure(directory: Path, key: TopicPartition, cleaned_end: int) -> CleanerProgress:
    sizes: dict[int, int] = {}
    for path in (directory / names.partition_directory(key)).glob(f"*{names.LOG}"):
        base_offset = names.base_offset_of(path.name)
        if base_offset is not None:
            sizes[base_offset] = path.stat().st_size
    bases = sorted(sizes)
    clean = dirty = 0
    for base_offset, end_offset in pairwise(bases):
        if end_offset <= cleaned_end:
            clean += sizes[base_offset]
        else:
            dirty += sizes[base_offset]
    active = sizes[bases[-1]] if bases else 0
    return CleanerProgress(key.topic, key.partition, cleaned_end, len(bases), clean, dirty, active)


def cleaner_table(partitions: Iterable[CleanerProgress]) -> Table:
    table = Table(("TOPIC", ">PARTITION", ">CLEANED TO", ">SEGMENTS", ">CLEAN", ">DIRTY", ">ACTIVE", ">DIRTY %"))
    for each in partitions:
        table.add(
            each.topic, each.partition, each.cleaned_end, each.segments, format_size(each.clean_bytes),
            format_size(each.dirty_bytes), format_size(each.active_bytes), f"{100 * each.dirty_ratio:.0f}",
        )  # fmt: skip
    return table


def cleaner_documents(partitions: Iterable[CleanerProgress]) -> list[dict[str, Any]]:
    return [{**each._asdict(), "dirty_ratio": round(each.dirty_ratio, 4)} for each in partitions]
