"""Cleans up after an interrupted deletion or compaction, before a partition is loaded.

`.deleted` and `.cleaned` files are removed. A `.swap` file is a finished replacement: it takes the place of the
segments it covers; unless a `.cleaned` file at or below its offset shows that the set was not finished, then it is
removed too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from penstock.log.formats import names
from penstock.log.storage.files import Files
from penstock.log.storage.scan import CorruptLogError, scan_headers

logger = logging.getLogger(__name__)


def finish_swaps(files: Files, directory: str, listing: set[str]) -> set[str]:
    """The names that exist afterwards."""
    if not any(name.endswith((names.DELETED, names.CLEANED, names.SWAP, names.TEMPORARY)) for name in listing):
        return listing
    cleaned = [_offset(name) for name in listing if name.endswith(names.CLEANED)]
    first_cleaned = min(cleaned, default=None)
    swaps = _in_order(name for name in listing if name.endswith(names.SWAP))
    finished = [name for name in swaps if first_cleaned is None or _offset(name) < first_cleaned]
    # The files that belong to a .cleaned file are removed before it: the other way round, a crash in between would
    # leave an index that the next start takes for a finished one.
    dropped = [name for name in swaps if name not in finished]
    dropped += sorted(name for name in listing if name.endswith((names.DELETED, names.CLEANED, names.TEMPORARY)))
    for name in dropped:
        files.unlink(f"{directory}/{name}")
    covered = _covered_ranges(files, directory, finished)
    for name in sorted(listing):
        parsed = names.parse_segment_file(name)
        if parsed and parsed[1] in names.SEGMENT_SUFFIXES and any(start <= parsed[0] < end for start, end in covered):
            logger.info("removing %s/%s: a compacted segment takes its place", directory, name)
            files.unlink(f"{directory}/{name}")
    for name in finished:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(names.SWAP)}")
    return set(files.list_names(directory))


def _in_order(swaps: Iterable[str]) -> list[str]:
    """Each `.log` first: while it has its .swap, every file with its final name counts as the old segment's."""
    return sorted(swaps, key=lambda name: (_offset(name), not name.endswith(names.LOG + names.SWAP), name))


def _covered_ranges(files: Files, directory: str, swaps: list[str]) -> list[tuple[int, int]]:
    """From the first swapped segment to the end of the last: one range, since one cleaning swaps one range."""
    start: int | None = None
    end = 0
    for name in swaps:
        if not name.endswith(names.LOG + names.SWAP):
            continue
        base_offset = _offset(name)
        start = base_offset if start is None else min(start, base_offset)
        end = max(end, _next_offset(files, f"{directory}/{name}", base_offset))
    return [] if start is None else [(start, end)]


def _next_offset(files: Files, path: str, base_offset: int) -> int:
    file = files.open(path)
    next_offset = base_offset
    try:
        for _, header in scan_headers(file, 0, file.size()):
            next_offset = header.next_offset
    except CorruptLogError as error:
        logger.warning("a swapped segment is damaged: %s", error)
    finally:
        file.close()
    return next_offset


def _offset(name: str) -> int:
    return names.base_offset_of(name) or 0
