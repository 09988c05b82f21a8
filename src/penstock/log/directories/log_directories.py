"""All the logs of one broker, in one or several data directories.

A partition whose files fail goes offline alone. A directory that fails itself (it cannot be listed, locked or written)
goes offline with its partitions, and the others go on.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from penstock.core.clock import Clock
from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicId, TopicPartition
from penstock.log.directories.checkpoint_write import CheckpointCapture, CheckpointWrite, Standby
from penstock.log.directories.clean_close import close_cleanly
from penstock.log.directories.data_directory import DataDirectory, LogDirectoryError
from penstock.log.directories.duplicate_directories import DuplicateVerdict, choose_log, make_future, settle_marks
from penstock.log.directories.log_loading import list_entries, load_partition_log, request_log
from penstock.log.directories.namesakes import Named, Namesakes
from penstock.log.directories.partition_directories import (
    DirectoryCreation,
    DirectoryRemoval,
    DirectoryRenames,
    Made,
    NewPartition,
    Retired,
)
from penstock.log.directories.progress import with_progress
from penstock.log.formats.metadata_files import UNKNOWN_BROKER_EPOCH
from penstock.log.partition_log import PartitionLog
from penstock.log.recovery.log_loader import create_log
from penstock.log.storage.files import NOT_BROKEN, Files
from penstock.log.storage.open_files import MAX_OPEN_FILES, OpenResources
from penstock.log.upkeep.delayed_deletes import DelayedDeletes
from penstock.protocol.errors import ApiError, ErrorCode

__all__ = ["LogDirectories", "LogDirectoryError"]

logger = logging.getLogger(__name__)


class LogDirectories:
    def __init__(self, clock: Clock, resources: OpenResources) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.offline: dict[Path, str] = {}
        self.directories: dict[Path, DataDirectory] = {}
        self._clock = clock
        self._resources = resources
        self.delayed_deletes = DelayedDeletes(resources.files)
        self.log_counts: Counter[Path] = Counter()  # by data directory, with unfinished copies
        self._made: dict[TopicPartition, Made] = {}  # directories of partitions that are about to be created
        self._refused: dict[TopicPartition, str] = {}  # partitions that no data directory could take
        self.preferred: dict[TopicPartition, Path] = {}  # the directories for partitions that do not exist yet
        self.futures: dict[Path, TopicPartition] = {}  # unfinished copies that the start has found
        self.standbys: dict[TopicPartition, Standby] = {}  # for logs that change their directory
        self.metadata_number = 0  # the position of the metadata log; noted with the checkpoints
        self._retired: deque[tuple[PartitionLog, int | None]] = deque()  # each with its time of deletion
        self._checkpoint_write: CheckpointWrite | None = None
        self._namesakes = Namesakes()
        self._undecided: set[Path] = set()  # data directories with logs between which only a later start can choose

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        *,
        node_id: int,
        cluster_id: str,
        settings_for: Callable[[str], LogSettings],
        clock: Clock,
        files: Files,
        max_open_files: int = MAX_OPEN_FILES,
    ) -> LogDirectories:
        """LogDirectoryError when a directory has another owner, or none is usable."""
        opened = cls(clock, OpenResources(files, max_open_files))
        try:
            for path in dict.fromkeys(Path(path).absolute() for path in paths):
                try:
                    opened.directories[path] = DataDirectory.open(path, node_id, cluster_id, files)
                    opened._load_directory(opened.directories[path], settings_for)
                except OSError as error:
                    opened.take_directory_offline(path, f"opening it failed: {error}")
            usable = opened.directories.keys() - opened.offline.keys()
            if len(paths) > 1:
                settle_marks(files, opened.logs.values(), usable)
            if not usable:
                reasons = "; ".join(f"{path}: {reason}" for path, reason in opened.offline.items())
                raise LogDirectoryError(f"no data directory can be used: {reasons}")
        except BaseException:
            opened.close(clean=False)
            raise
        return opened

    def _load_directory(self, directory: DataDirectory, settings_for: Callable[[str], LogSettings]) -> None:
        partitions, futures, deleted = list_entries(directory, self._resources.files)
        self.futures |= futures
        for path in deleted:
            self.delayed_deletes.add(path, 0)
        for topic_partition in with_progress("logs are loaded", partitions, self._clock.monotonic_ms):
            settings = settings_for(topic_partition.topic)
            request = request_log(directory, topic_partition, settings, self._resources, self._clock.now_ms())
            loaded = load_partition_log(directory, request, self.delayed_deletes)
            self._namesakes.add(loaded.log, loaded.marks)
            self._add(loaded.log)
        gone = directory.names_in_files.difference(partitions)
        self._namesakes.note_gone(Named(directory.path, topic_partition) for topic_partition in gone)

    def _add(self, log: PartitionLog) -> None:
        """At a start there may be another log of the partition: then one of the two is removed."""
        self.log_counts[log.directory.parent] += 1
        other = self.logs.get(log.topic_partition)
        if other is not None:
            log, dropped, verdict = choose_log(self._resources.files, other, log)
            if verdict is DuplicateVerdict.UNKNOWN:
                dropped.close(clean=False)
                self._undecided |= {log.directory.parent, dropped.directory.parent}
            elif verdict is DuplicateVerdict.UNDONE:
                self.log_counts[dropped.directory.parent] -= 1
                self.futures[make_future(self._resources.files, dropped)] = log.topic_partition
            else:
                self._retired.append((dropped, self._clock.now_ms()))
                self._rename_retired()
        self.logs[log.topic_partition] = log

    # ---- create and delete

    def prepare_creation(self, partitions: Iterable[NewPartition]) -> DirectoryCreation | None:
        """The directories for another thread to make, each where the most room is; None when nothing is to be made.
        `settle_creation` must follow, and then `create`.
        """
        counts = {path: self.log_counts[path] for path in self.directories if path not in self.offline}
        logs, made = self.logs, self._made
        wanted = [each for each in partitions if each.topic_partition not in logs and each.topic_partition not in made]
        preferred = {
            each.topic_partition: self.preferred.pop(each.topic_partition)
            for each in wanted
            if each.topic_partition in self.preferred
        }
        namesakes = self._namesakes.among(counts, (each.topic_partition for each in wanted))
        return DirectoryCreation(self._resources.files, wanted, counts, preferred, namesakes) if wanted else None

    def settle_creation(self, creation: DirectoryCreation) -> None:
        for failure in creation.failures:
            logger.error("%s", failure.reason)
            if failure.is_of_disk:
                self.take_directory_offline(failure.directory, failure.reason)
        self._made |= creation.made
        self._refused |= creation.refused

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, settings: LogSettings) -> PartitionLog:
        """An empty log, in a directory made before or now. ApiError KAFKA_STORAGE_ERROR when no directory takes it."""
        if topic_partition in self.logs:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the log of {topic_partition} exists already")
        self._rename_retired()  # there are some only when one image deletes a topic and recreates it
        if topic_partition not in self._refused:
            creation = self.prepare_creation([NewPartition.of(topic_partition, topic_id, settings)])
            if creation is not None:
                creation.run()
                self.settle_creation(creation)
        reason = self._refused.pop(topic_partition, None)
        if reason is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        path, marks = self._made.pop(topic_partition)
        now_ms = self._clock.now_ms()
        request = request_log(self.directories[path], topic_partition, settings, self._resources, now_ms)
        request = request._replace(recovery_point=0, log_start_offset=0, high_watermark=0)
        log = PartitionLog(create_log(request, topic_id), self.delayed_deletes, request.now_ms)
        self._namesakes.add(log, marks)
        self._add(log)
        if path in self.offline:  # since the directory of the partition was made
            log.go_offline(f"its data directory is offline: {self.offline[path]}")
        return log

    def drop(self, logs: Iterable[PartitionLog]) -> DirectoryRemoval:
        """The logs for another thread to remove at once: created and never used."""
        dropped = list(logs)
        for log in dropped:
            del self.logs[log.topic_partition]
            log.availability.mark_removed()
            log.close(clean=False)
            self.log_counts[log.directory.parent] -= 1
            self._namesakes.forget(log)
            self._namesakes.note_gone([Named(log.directory.parent, log.topic_partition)])
        return DirectoryRemoval(self._resources.files, [log.directory for log in dropped])

    def retire(self, topic_partition: TopicPartition, now_ms: int | None) -> None:
        """The log is no longer served; open slices stay readable. The name is in use until `prepare_renames` was run
        and settled. The files are removed after file.delete.delay.ms, or stay, as `-stray`, where there is no time.

        Costs 1 us: a topic with thousands of partitions is retired in one turn of the loop. `prepare_renames` does the
        rest.
        """
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            log.availability.mark_removed()
            self._retired.append((log, now_ms))

    def prepare_renames(self, limit: int | None = None) -> DirectoryRenames | None:
        """The directories for another thread to rename, so that the names of deleted partitions may be used again: all,
        or at most `limit`. None when nothing is left.
        """
        count = len(self._retired) if limit is None else min(limit, len(self._retired))
        retired = [each for _ in range(count) for each in self._let_go(*self._retired.popleft())]
        return DirectoryRenames(self._resources.files, retired) if retired else None

    def _let_go(self, log: PartitionLog, now_ms: int | None) -> list[Retired]:
        log.close(clean=False)
        self._namesakes.forget(log)
        directories = [log.directory]
        standby = self.standbys.get(log.topic_partition)
        if standby is not None and standby.log is log and standby.is_left:
            directories.append(standby.directory / log.directory.name)  # its name is in use as well
            del self.standbys[log.topic_partition]
        self.log_counts[log.directory.parent] -= 1
        due_ms = None if now_ms is None else now_ms + log.settings.file_delete_delay_ms
        return [Retired.of(directory, log.topic_partition, due_ms) for directory in directories]

    def settle_renames(self, renames: DirectoryRenames) -> None:
        for path, reason in renames.failures.items():
            self.take_directory_offline(path, reason)
        self._namesakes.note_gone(each.named for each in renames.renamed)
        for target, due_ms in ((each.target, each.due_ms) for each in renames.renamed if each.due_ms is not None):
            self.delayed_deletes.add(str(target), due_ms)

    def delete(self, topic_partitions: Iterable[TopicPartition], now_ms: int | None) -> None:
        """Deletes all of it at once, for callers that may block. Each data directory is synced once."""
        for topic_partition in topic_partitions:
            self.retire(topic_partition, now_ms)
        self._rename_retired()

    def _rename_retired(self) -> None:
        renames = self.prepare_renames()
        if renames is not None:
            renames.run()
            self.settle_renames(renames)

    # ---- upkeep

    def begin_checkpoints(self, capture: CheckpointCapture) -> CheckpointWrite:
        """The checkpoints for another thread to encode and write, from offsets captured a few logs at a time."""
        self._settle_checkpoints()
        capture.drop_stale(self.logs)
        online = {path: each for path, each in self.directories.items() if path not in self.offline}
        written = {path: each.written_checkpoints for path, each in online.items()}
        standbys = [each for each in self.standbys.values() if self.logs.get(each.log.topic_partition) is each.log]
        marks = self._namesakes.begin(row.log for row in capture.rows)
        self._checkpoint_write = CheckpointWrite(
            self._resources.files, capture, written, standbys, self.metadata_number, marks
        )
        return self._checkpoint_write

    def prepare_checkpoints(self) -> CheckpointWrite | None:
        """All of it encoded, for callers that may block; None when the files on disk are up to date and no caller waits
        for them.
        """
        capture = CheckpointCapture()
        for log in self.logs.values():
            capture.add(log)
        write = self.begin_checkpoints(capture)
        return write if write.encode() or write.marks or self.standbys else None

    def write_checkpoints(self) -> set[Path]:
        """Both steps in one, for callers that may block. Returns the directories whose files may be out of date."""
        write = self.prepare_checkpoints()
        if write is None:
            return set()
        write.run()
        self._settle_checkpoints()
        return set(write.failures)

    def _settle_checkpoints(self) -> None:
        """Handles the errors of the last write. A full disk, or a process without descriptors, costs time in the next
        recovery and is tried again; a directory that is unwritable for another reason goes offline, and the others go
        on.
        """
        write, self._checkpoint_write = self._checkpoint_write, None
        if write is None:
            return
        self._namesakes.settle(write.failures, write.removed_marks)
        for path, name, content in write.contents:
            self.directories[path].note_checkpoint(name, content)
        for path, error in write.failures.items():
            self.directories[path].forget_checkpoints()
            if error.errno in NOT_BROKEN:
                logger.warning("cannot write the checkpoints of %s for now: %s", path, error)
            else:
                self.take_directory_offline(path, f"writing its checkpoints failed: {error}")

    # ---- going offline

    @property
    def offline_logs(self) -> dict[TopicPartition, str]:
        """The offline logs with the reasons, for the metric and other callers."""
        return {
            topic_partition: reason
            for topic_partition, log in self.logs.items()
            if (reason := log.availability.offline_reason) is not None
        }

    def take_directory_offline(self, path: Path, reason: str) -> None:
        if path in self.offline:
            return
        self.offline[path] = reason
        logger.error("data directory %s goes offline: %s", path, reason)
        for log in self.logs.values():
            if log.directory.parent == path:
                log.go_offline(f"its data directory is offline: {reason}")

    # ---- close

    def close(self, clean: bool = True, threads_per_directory: int = 1, epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Makes all durable, writes checkpoints, and the mark of a clean shutdown where all of it succeeded."""
        unsettled = self._close_logs(clean, threads_per_directory) | self._undecided
        if clean:
            unsettled |= self.write_checkpoints()  # after a clean shutdown a start believes the files
        for path, directory in self.directories.items():
            if clean and path not in unsettled and path not in self.offline:
                try:
                    directory.mark_clean(epoch)
                except OSError as error:
                    logger.warning("cannot mark %s as cleanly shut down: %s", path, error)
            directory.release()
        self.logs = {}
        self.directories = {}

    def _close_logs(self, clean: bool, threads_per_directory: int) -> set[Path]:
        """Returns the data directories where a log was not closed as `clean` demands."""
        if not clean:
            for log in self.logs.values():
                log.close(clean=False)
            return set()
        by_directory: defaultdict[Path, list[PartitionLog]] = defaultdict(list)
        for log in self.logs.values():
            by_directory[log.directory.parent].append(log)
        unsettled = close_cleanly(by_directory, threads_per_directory, self._clock.monotonic_ms)
        for path in [each for each in by_directory if each not in self.offline]:
            try:
                self._resources.files.sync_directory(path)
            except OSError as error:
                self.take_directory_offline(path, f"closing its logs failed: {error}")
        return unsettled
