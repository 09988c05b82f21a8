"""Whether the files of a segment agree: what an index says against what stands in the log."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.log_files.dump import (
    FileProblem,
    OffsetEntry,
    TimeEntry,
    iterate_segment,
    read_offset_index,
    read_time_index,
)
from penstock.log.formats import names
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.batch import BatchHeader


def check_offset_index(entries: Sequence[OffsetEntry], batches: Sequence[tuple[int, BatchHeader]]) -> list[str]:
    """Each entry must name the last offset of the batch that begins at its position."""
    by_position = dict(batches)
    problems = []
    for entry in entries:
        header = by_position.get(entry.position)
        if header is None:
            problems.append(f"the entry for offset {entry.offset} points to {entry.position}, where no batch begins")
        elif header.last_offset != entry.offset:
            problems.append(
                f"the entry for offset {entry.offset} points to the batch {header.base_offset}..{header.last_offset}"
            )
    return problems


def check_time_index(entries: Sequence[TimeEntry], batches: Sequence[tuple[int, BatchHeader]]) -> list[str]:
    """Each entry must name a batch whose newest record has just that time."""
    last_offsets = [header.last_offset for _, header in batches]
    problems = []
    for entry in entries:
        slot = bisect_left(last_offsets, entry.offset)
        header = batches[slot][1] if slot < len(batches) else None
        if header is None or entry.offset < header.base_offset:
            problems.append(f"the entry for {entry.timestamp} names offset {entry.offset}, which is not in the log")
        elif header.max_timestamp != entry.timestamp:
            problems.append(
                f"the entry for offset {entry.offset} says {entry.timestamp}, the batch says {header.max_timestamp}"
            )
    return problems


def verify_indexes(log_path: Path) -> list[FileProblem]:
    """Checks the indexes that lie beside a segment; a missing one is rebuilt at start-up and no finding."""
    batches = _read_headers(log_path)
    findings: list[FileProblem] = []
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
        path = log_path.with_suffix(suffix)
        if not path.exists():
            continue
        try:
            if suffix == names.OFFSET_INDEX:
                problems = check_offset_index(read_offset_index(path), batches)
            else:
                problems = check_time_index(read_time_index(path), batches)
        except ValueError as error:
            problems = [f"not readable: {error}"]
        findings.extend(FileProblem(path, problem) for problem in problems)
    return findings


def _read_headers(log_path: Path) -> list[tuple[int, BatchHeader]]:
    """The headers as far as the log is readable. Damage in the log is the segment's own finding."""
    batches = []
    with contextlib.suppress(CorruptLogError):
        for position, header, _ in iterate_segment(log_path):
            batches.append((position, header))
    return batches
