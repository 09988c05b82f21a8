"""Partitions that a start finds in two data directories, because a crash came during their move.

A log that changes its directory continues under the new directory's name at once, and the old directory is renamed when
the new one is durable (`log_move`). Until then the new directory has a file `penstock.moved`. So of two logs of one
partition, one of which has that file:

- The new log counts if it reaches as far as the old log. It has all records of the old log, and the later ones. After a
  kill some of them, and its very name, may be in the page cache alone: it is made durable before the old log is
  removed.
- Otherwise a power failure took the end of the new log. The old log has everything that was durable when the log moved,
  and later records were not durable in the new log either. So the old log counts, and the move begins again.

Where one of the two is unreadable, or the new log cannot be made durable, the partition is offline and both stay for
the next start.

While the old directory may still count the new log is never truncated, so that the ends decide. Where the old directory
was unreadable, the new log serves, and from then on it counts whatever the old directory holds.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from penstock.log.directories.data_directory import LogDirectoryError
from penstock.log.formats import names
from penstock.log.formats.metadata_files import Moved, decode_moved, encode_moved
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)


class DuplicateVerdict(enum.Enum):
    MOVED = "the new one counts"
    UNDONE = "the old one counts, and the move begins anew"
    UNKNOWN = "a disk fails: both stay for the next start, and the partition is offline until then"


class Choice(NamedTuple):
    kept: PartitionLog
    dropped: PartitionLog
    verdict: DuplicateVerdict


def choose_log(files: Files, first: PartitionLog, second: PartitionLog) -> Choice:
    """The log that counts, of two logs of one partition. LogDirectoryError when only a person can decide."""
    marks = [read_mark(files, log) for log in (first, second)]
    if (marks[0] is None) == (marks[1] is None):
        raise LogDirectoryError(
            f"{first.topic_partition} is in {first.directory} and in {second.directory}; remove the older of the two"
        )
    new, old, mark = (second, first, marks[1]) if marks[0] is None else (first, second, marks[0])
    assert mark is not None
    unreadable = new.offline_reason or old.offline_reason
    if unreadable is not None:
        # Neither may be removed, and neither may serve: the other may have more records.
        if new.offline_reason is None:
            new.go_offline(f"its move from {old.directory} was not over, and that cannot be read: {unreadable}")
        logger.error(
            "%s is offline: of %s and %s one cannot be read", new.topic_partition, old.directory, new.directory
        )
        return Choice(new, old, DuplicateVerdict.UNKNOWN)
    is_whole = mark.is_final or new.log_end_offset >= old.log_end_offset
    if is_whole:
        try:
            _make_durable(files, new)
        except (OSError, ApiError) as error:
            if new.offline_reason is None:
                new.go_offline(f"settling its move: {error}")
            return Choice(new, old, DuplicateVerdict.UNKNOWN)
    kept, dropped = (new, old) if is_whole else (old, new)
    logger.info("%s is in %s: the move from %s was not over", kept.topic_partition, kept.directory, old.directory)
    return Choice(kept, dropped, DuplicateVerdict.MOVED if is_whole else DuplicateVerdict.UNDONE)


def _make_durable(files: Files, log: PartitionLog) -> None:
    log.flushing.flush()
    files.sync_directory(log.directory.parent)


def make_future(files: Files, log: PartitionLog) -> Path:
    """Renames the log that does not count, so that the next start does not compare it again."""
    log.close(clean=False)
    future = log.directory.with_name(names.future_directory(log.topic_partition))
    files.rename(log.directory, future)
    files.sync_directory(future.parent)
    return future


def read_mark(files: Files, log: PartitionLog) -> Moved | None:
    """The source directory of the log, if its move was not settled."""
    try:
        return decode_moved(files.read_file(log.directory / names.MOVED))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LogDirectoryError(f"{log.directory / names.MOVED} cannot be read: {error}") from error


def settle_marks(files: Files, logs: Iterable[PartitionLog], usable: Collection[Path]) -> None:
    """Call at a start, when every log is in one data directory alone."""
    for log in logs:
        try:
            _settle_mark(files, log, usable)
        except (OSError, ApiError) as error:
            if log.offline_reason is None:
                log.go_offline(f"settling its move: {error}")


def _settle_mark(files: Files, log: PartitionLog, usable: Collection[Path]) -> None:
    mark = None if log.offline_reason is not None else read_mark(files, log)
    if mark is None:
        return
    _make_durable(files, log)  # from here on the old directory does not count any more, if there is one
    if Path(mark.source) in usable:
        remove_mark(files, log.directory)
    elif not mark.is_final:
        write_final_mark(files, log.directory, mark.source)


def write_final_mark(files: Files, directory: Path, source: str) -> None:
    files.write_file(directory / names.MOVED, encode_moved(Moved(source, is_final=True)), sync=True)


def remove_mark(files: Files, directory: Path) -> None:
    """Removes the mark for good: a mark that a power failure brought back would concern the next move."""
    files.unlink(directory / names.MOVED)
    files.sync_directory(directory)
