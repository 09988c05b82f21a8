"""Closes many logs at once, in a few threads for each data directory.

A log with new records costs about five fsyncs at a clean shutdown, and a log without new records costs none. A service
manager waits for a limited time (90 s by default with systemd). The owner's thread writes the missing data and captures
the syncs (`Flush`). Threads only sync. One thread means the owner's thread. A slow shutdown logs its progress.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from penstock.log.directories.progress import Progress
from penstock.log.partition_log import PartitionLog
from penstock.log.upkeep.flush import Flush
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)

# The number of logs captured at a time: each holds a descriptor for each segment that is not durable yet, mostly one.
_LOGS_PER_STEP = 64


class _Closing(NamedTuple):
    log: PartitionLog
    flush: Flush

    def sync(self) -> OSError | None:
        try:
            self.flush.run()
        except OSError as error:
            return error
        return None


def close_cleanly(
    logs: Mapping[Path, Sequence[PartitionLog]],
    threads_per_directory: int,
    now_ms: Callable[[], int],
) -> set[Path]:
    """Closes the logs of each data directory; returns the directories where a log was not closed cleanly.

    The names of partitions in the data directories are not durable afterwards: see `PartitionLog.prepare_close`.
    """
    thread_count = threads_per_directory * len(logs)
    # From each directory in turn: this keeps all disks busy.
    in_turn = (log for log in chain.from_iterable(zip_longest(*logs.values())) if log is not None)
    progress = Progress("logs are closed", sum(map(len, logs.values())), now_ms)
    if thread_count <= 1:
        return _close_in_steps(in_turn, None, progress)
    with ThreadPoolExecutor(thread_count, thread_name_prefix="penstock-close") as executor:
        return _close_in_steps(in_turn, executor, progress)


def _close_in_steps(logs: Iterator[PartitionLog], executor: ThreadPoolExecutor | None, progress: Progress) -> set[Path]:
    unsettled: set[Path] = set()
    while step := list(islice(logs, _LOGS_PER_STEP)):
        closings = list(_prepare(step, unsettled))
        run = map if executor is None else executor.map
        for closing, error in zip(closings, run(_Closing.sync, closings), strict=True):
            log = closing.log
            if error is None:
                log.flushing.mark_flushed(closing.flush)
            else:
                _note_failure(log, log.availability.fail("closing", error), unsettled)
            log.close(clean=False)
        progress.note(len(step))
    return unsettled


def _prepare(logs: Iterable[PartitionLog], unsettled: set[Path]) -> Iterator[_Closing]:
    for log in logs:
        try:
            yield _Closing(log, log.prepare_close())
        except ApiError as error:
            _note_failure(log, error, unsettled)
            log.close(clean=False)


def _note_failure(log: PartitionLog, error: ApiError, unsettled: set[Path]) -> None:
    logger.warning("%s was not closed cleanly: %s", log.topic_partition, error.message)
    unsettled.add(log.directory.parent)
