"""Moves one log from one data directory of a broker to another while it serves.

`LogMove.steps` is the whole move: it yields work for any thread (`CopyStep`), or a wait (`Pause`). It continues on the
owner's thread. The order of the steps, and the state after a crash in between:

1. A copy grows in `<topic>-<partition>.<unique id>-future` of the new data directory, and follows the log
   (`replica_copies.log_copy`). After a crash the log is in its old place. The next start removes the copy and begins
   again.
2. When the copy is nearly complete it is made durable, and a checkpoint of its data directory has its entry: recovery
   point, log start, high watermark and cleaner offset count from the first start in the new place.
3. In one turn of the loop the last bytes are copied, the copy's directory gets the plain name, and the log continues
   there. Both directories have the plain name now. After a crash, `penstock.moved` in the new directory and the ends of
   the two logs decide between them (`duplicate_directories`).
4. The log is flushed in its new place. Then the old directory is renamed for deletion, and the mark is removed.

A log that is deleted meanwhile takes copy and old directory with it. A disk that fails before the third step ends the
move, and the log stays in its place.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.core.types import TopicPartition
from penstock.log.directories.checkpoint_write import Standby
from penstock.log.directories.duplicate_directories import remove_mark, write_final_mark
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.directories.partition_directories import DirectoryRenames, Retired
from penstock.log.formats import names
from penstock.log.partition_log import PartitionLog
from penstock.log.replica_copies.log_copy import LogCopy
from penstock.log.replica_copies.steps import Copying, CopyStep, Failure
from penstock.log.storage.files import Files
from penstock.log.upkeep.flush import Flush
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)

# The bytes of one step: some milliseconds of a thread.
STEP_BYTES = 4 * 1024 * 1024
# The bytes copied in the turn of the loop in which the log changes its directory: about 0.2 ms.
_TAIL_BYTES = 256 * 1024


class Pause(enum.Enum):
    CHECKPOINT = "until the next checkpoint, or until a cleaning is over"


class Ending(enum.Enum):
    MOVED = "moved"
    CANCELLED = "was cancelled"
    FAILED = "failed"
    DELETED = "ended with the partition"
    LEFT = "is left to the next start"


class _Given(CopyStep):
    """A part of another piece of work, as a step."""

    def __init__(self, files: Files, work: Callable[[], object]) -> None:
        super().__init__(files)
        self._work = work

    def work(self) -> None:
        self._work()


class _Failed(CopyStep):
    """Ends the move."""

    def __init__(self, files: Files, reason: str) -> None:
        super().__init__(files)
        self.failure = Failure(reason, is_of_target=False)

    def work(self) -> None:
        return


class LogMove:
    """Runs on the owner's thread, except for the yields of `steps`."""

    def __init__(
        self,
        directories: LogDirectories,
        files: Files,
        log: PartitionLog,
        target: Path,
        now_ms: Callable[[], int],
        step_bytes: int = STEP_BYTES,
    ) -> None:
        """`target` is the data directory."""
        self.log = log
        self.source = log.directory.parent
        self.target = target
        self.is_wanted = True  # until a cancellation
        self.is_stopping = False  # the broker stops: the copy is left for the next start
        self.ending: Ending | None = None
        self.has_changed_over = False  # the log is in its new place
        self._directories = directories
        self._files = files
        self._now_ms = now_ms
        self._step_bytes = step_bytes
        self._end_offset = 0  # of the log when it changed over
        self.copy: LogCopy = log.begin_copy(str(target / names.future_directory(log.topic_partition)))

    # ---- what others see

    @property
    def is_cancellable(self) -> bool:
        return not self.has_changed_over and self.ending is None

    @property
    def may_rest(self) -> bool:
        """Whether a throttle may delay it: a move that is about to end copies nothing more."""
        return self.is_cancellable and self.is_wanted and not self.is_stopping and self.log.offline_reason is None

    # ---- the way

    def steps(self) -> Iterator[CopyStep | Pause]:
        self._directories.log_counts[self.target] += 1
        yield from self._fill()
        if self.ending is None:
            yield from self._settle()

    def _fill(self) -> Iterator[CopyStep | Pause]:
        """Runs until the log has changed over, or the move has ended otherwise."""
        making = self.copy.making(str(self.source))
        yield making
        if making.failure is not None:
            yield from self._fail(making)
            return
        while not self.has_changed_over:
            if self.log.availability.is_removed:
                yield from self._give_up(Ending.DELETED)
                return
            if self.log.offline_reason is not None or self.target in self._directories.offline:
                yield from self._give_up(Ending.FAILED)
                return
            if self.is_stopping and self.is_wanted:
                self._directories.standbys.pop(self.log.topic_partition, None)
                self._end(Ending.LEFT)
                return
            if not self.is_wanted:
                yield from self._give_up(Ending.CANCELLED)
                return
            failed: CopyStep | None = None
            for step in self._next_steps():
                yield step
                if isinstance(step, CopyStep) and step.failure is not None:
                    failed = step
                    break
            if failed is not None:
                yield from self._fail(failed)
                return

    def _next_steps(self) -> Iterator[CopyStep | Pause]:
        """One round: copies more, makes the copy durable, or changes over to the new place."""
        copy = self.copy
        try:
            step = copy.capture(self._step_bytes)
        except OSError as error:
            yield _Failed(self._files, str(error))
            return
        if copy.durable_end is None:  # also of a copy that began again
            self._directories.standbys.pop(self.log.topic_partition, None)
        is_near = step.is_tail(_TAIL_BYTES)
        if not is_near or (copy.durable_end is None and not step.is_empty):
            step.room_needed = max(self.log.size - copy.size, 1)
            yield step
            copy.settle(step)
            if step.failure is not None:
                yield _Failed(self._files, step.failure.reason)
        if not is_near:
            return
        if copy.durable_end is None:
            syncing = copy.syncing()
            yield syncing
            if syncing.failure is None:
                copy.note_synced(syncing)
                self._announce()
        elif not self._is_announced or self.log.compaction.is_cleaning:
            yield Pause.CHECKPOINT
        else:
            self._change_over(step)
            if step.failure is not None:
                yield _Failed(self._files, step.failure.reason)

    def _announce(self) -> None:
        if self.copy.durable_end is not None:
            standby = Standby(self.log, self.target, self.copy.durable_end, is_left=False)
            self._directories.standbys[self.log.topic_partition] = standby

    @property
    def _is_announced(self) -> bool:
        standby = self._directories.standbys.get(self.log.topic_partition)
        return standby is not None and standby.is_written

    def _change_over(self, tail: Copying) -> None:
        """Changes over in one turn. The last bytes are few, and in the page cache."""
        log, copy = self.log, self.copy
        tail.run()
        if tail.failure is None:
            copy.settle(tail)
        if tail.failure is not None:
            return
        place = self.target / names.partition_directory(log.topic_partition)
        recovery_point = log.recovery_point
        try:
            self._files.rename(copy.directory, place)
        except OSError as error:
            self._directories.take_directory_offline(self.target, f"moving {log.topic_partition} there failed: {error}")
            return
        log.relocate(copy, place)
        log.is_settling = True
        self.has_changed_over = True
        self._directories.log_counts[self.source] -= 1
        standby = Standby(log, self.source, recovery_point, is_left=True)
        self._directories.standbys[log.topic_partition] = standby
        self._end_offset = log.log_end_offset
        logger.info("partition %s goes on in %s", log.topic_partition, self.target)

    # ---- afterwards

    def _settle(self) -> Iterator[CopyStep | Pause]:
        log = self.log
        while log.recovery_point < self._end_offset:
            flush = self._prepare_flush()
            if flush is None:
                self._end(Ending.DELETED if log.availability.is_removed else Ending.FAILED)
                return
            flushing = _Given(self._files, flush.run)
            yield flushing
            if flushing.failure is None:
                log.flushing.mark_flushed(flush)
            else:
                log.go_offline(f"flushing: {flushing.failure.reason}")
        if log.availability.is_removed:  # with both directories
            self._end(Ending.DELETED)
            return
        # Before the removal of the old directory: a deletion of the log meanwhile finds one directory alone.
        if self._directories.standbys.pop(log.topic_partition, None) is not None:
            yield from self._remove_old()
        self._end(Ending.MOVED)

    def _prepare_flush(self) -> Flush | None:
        try:
            return self.log.flushing.prepare()
        except ApiError:  # offline, and logged
            return None

    def _remove_old(self) -> Iterator[CopyStep]:
        log = self.log
        old = self.source / log.directory.name
        due_ms = self._now_ms() + log.settings.file_delete_delay_ms
        renames = DirectoryRenames(self._files, [Retired.of(old, log.topic_partition, due_ms)])

        def work() -> None:
            self._files.sync_directory(self.target)
            renames.run()
            if renames.failures:
                write_final_mark(self._files, log.directory, str(self.source))
            else:
                remove_mark(self._files, log.directory)

        step = _Given(self._files, work)
        yield step
        self._directories.settle_renames(renames)
        if step.failure is not None and not log.availability.is_removed:
            log.go_offline(f"settling its move: {step.failure.reason}")

    # ---- another end

    def _fail(self, step: CopyStep) -> Iterator[CopyStep]:
        assert step.failure is not None
        logger.error("%s cannot be moved to %s: %s", self.log.topic_partition, self.target, step.failure.reason)
        if step.failure.is_of_target:
            self._directories.take_directory_offline(self.target, f"copying a log there failed: {step.failure.reason}")
        yield from self._give_up(Ending.FAILED)

    def _give_up(self, ending: Ending) -> Iterator[CopyStep]:
        """Removes the copy, when its name can be changed; otherwise the next start removes it."""
        self._directories.log_counts[self.target] -= 1
        standby = self._directories.standbys.get(self.log.topic_partition)
        if standby is not None and standby.log is self.log:
            del self._directories.standbys[self.log.topic_partition]
        if self.target not in self._directories.offline:
            discard = discard_copy(self._files, Path(self.copy.directory), self.log.topic_partition, self._now_ms())
            step = _Given(self._files, discard.run)
            yield step
            discard.failures.clear()  # a copy that stays does no harm
            self._directories.settle_renames(discard)
        self._end(ending)

    def abandon(self) -> None:
        """Call after an unforeseen error that ended the steps."""
        log, standbys = self.log, self._directories.standbys
        if self.has_changed_over:
            # Two directories have the name. Only the next start can decide between them, by the ends of the logs.
            if not log.availability.is_removed and self.ending is None:
                log.go_offline("its move was not settled; the next start does it")
        elif self.ending is None:
            self._directories.log_counts[self.target] -= 1
            if (standby := standbys.get(log.topic_partition)) is not None and standby.log is log:
                del standbys[log.topic_partition]
        self._end(Ending.FAILED)

    def _end(self, ending: Ending) -> None:
        self.log.is_settling = False
        self.ending = ending


def discard_copy(files: Files, directory: Path, topic_partition: TopicPartition, now_ms: int) -> DirectoryRenames:
    return DirectoryRenames(files, [Retired.of(directory, topic_partition, now_ms)])
