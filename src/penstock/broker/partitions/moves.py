"""AlterReplicaLogDirs at run time (KIP-113): moves of replicas to another data directory of this broker.

Rules:
- A replica has one move at a time. A request for another directory replaces the move, and a request for the replica's
  present directory ends it. A move whose log has changed over completes first.
- A replica that does not exist yet is created in the requested directory.
- The `steps` of a move run in threads, one after the other, with a rest after each as the throttle demands. As many
  moves copy at once as there are data directories, as in Kafka; others wait. A move that waits for a checkpoint lets
  others copy.
- A request is answered when the directory of the copy exists (`made`): after a start, unfinished moves begin again, and
  their directories name the targets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.core.clock import Clock
from penstock.core.config.sections import ThrottleSection
from penstock.core.types import TopicPartition
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.directories.log_move import Ending, LogMove, Pause, discard_copy
from penstock.log.formats import names
from penstock.log.formats.metadata_files import decode_partition_metadata
from penstock.log.replica_copies.steps import CopyStep
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from penstock.replication.throttle import RateLimiter

logger = logging.getLogger("penstock.broker.moves")

# Takes the number of copied bytes; gives the milliseconds until the next copy.
Pace = Callable[[int], int]

# The longest rest of a move before it asks the throttle again, whose rate may have changed by then.
_LONGEST_REST_MS = 1_000
# The pause of a move that waits for a checkpoint, or for a cleaning.
_LOOK_AGAIN_MS = 100
# The number of remembered directories for replicas that do not exist yet. A request names some hundred.
_MOST_REMEMBERED = 10_000


def no_throttle(_: int) -> int:
    return 0


def throttled(read_settings: Callable[[], ThrottleSection], clock: Clock) -> Pace:
    """The pace of `replica.alter.log.dirs.io.max.bytes.per.second`, which may change during copies."""
    settings = read_settings()
    limiter = RateLimiter(
        window_count=settings.alter_log_dirs_replication_quota_window_num,
        window_ms=settings.alter_log_dirs_replication_quota_window_size_seconds * 1000,
    )

    def pace(size: int) -> int:
        limiter.limit = read_settings().replica_alter_log_dirs_io_max_bytes_per_second
        now_ms = clock.monotonic_ms()
        limiter.note(size, now_ms)
        return limiter.free_at_ms(now_ms) - now_ms

    return pace


class MoveState(NamedTuple):
    """The state of a copy for DescribeLogDirs."""

    topic_partition: TopicPartition
    target: Path
    size: int
    offset_lag: int


class Moves:
    def __init__(
        self,
        directories: LogDirectories,
        partitions: Partitions,
        files: Files,
        clock: Clock,
        pace: Pace = no_throttle,
    ) -> None:
        self.pace = pace
        self._directories = directories
        self._partitions = partitions
        self._files = files
        self._clock = clock
        self._moves: dict[TopicPartition, LogMove] = {}
        # The next target, for the time after the present move.
        self._wanted: dict[TopicPartition, tuple[Partition, Path]] = {}
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._copying = asyncio.Semaphore(max(len(directories.directories), 1))
        self._stopping = asyncio.Event()
        self._unmade: dict[TopicPartition, asyncio.Event] = {}  # moves whose copies have no directory yet
        self._changed = asyncio.Event()  # a move is not wanted any more: resting moves look again

    # -------------------------------------------------------------------------------------------- requests

    def request(self, topic_partition: TopicPartition, directory: str) -> ErrorCode:
        """The immediate answer to a client: the move goes on after the answer."""
        target = Path(directory)
        if len(names.future_directory(topic_partition)) > names.MAX_NAME_SIZE:
            return ErrorCode.INVALID_TOPIC_EXCEPTION  # as in Kafka, which has the same names of directories
        if target not in self._directories.directories and target not in self._directories.offline:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target in self._directories.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.find(*topic_partition)
        if partition is None:
            return self._remember(topic_partition, target)
        if not partition.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        is_new = target != partition.directory
        if is_new and self._directories.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR  # the directory might have a copy of the partition; as in Kafka
        self._direct(partition, target)
        return ErrorCode.NONE

    def _remember(self, topic_partition: TopicPartition, target: Path) -> ErrorCode:
        code = self._partitions.why_missing(*topic_partition)
        if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return code
        preferred, state_of = self._directories.preferred, self._partitions.state_of
        if len(preferred) >= _MOST_REMEMBERED:
            for each in [each for each in preferred if state_of(*each) is None]:
                del preferred[each]
        if topic_partition in preferred or len(preferred) < _MOST_REMEMBERED:
            preferred[topic_partition] = target
        return ErrorCode.REPLICA_NOT_AVAILABLE

    def _direct(self, partition: Partition, target: Path) -> None:
        name = partition.topic_partition
        move = self._moves.get(name)
        if move is None:
            if target != partition.directory:
                self._start(partition, target)
        elif move.log is not partition.log:  # the move is of a deleted topic with this name
            self._wanted[name] = partition, target
        elif move.target != target:
            move.is_wanted = move.has_changed_over
            self._wanted[name] = partition, target
            self._wake()
        else:
            self._wanted.pop(name, None)
            if not move.is_wanted:  # the move is about to end
                self._wanted[name] = partition, target

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def made(self) -> None:
        """Returns when a crash will not make the broker forget the requested moves."""
        for event in list(self._unmade.values()):
            await event.wait()

    def resume(self) -> None:
        """Resumes moves at the start, when the partitions exist. May block. The old copy is removed when the new copy
        has begun.
        """
        found, self._directories.futures = self._directories.futures, {}
        for directory, topic_partition in found.items():
            partition = self._partitions.find(*topic_partition)
            if partition is not None and self._is_to_move(partition, directory):
                self._start(partition, directory.parent, may_block=True)
            renames = discard_copy(self._files, directory, topic_partition, self._clock.now_ms())
            renames.run()
            self._directories.settle_renames(renames)

    def _is_to_move(self, partition: Partition, copy: Path) -> bool:
        """A copy may be of a deleted topic. Of two copies, one is enough."""
        try:
            topic_id = decode_partition_metadata(self._files.read_file(copy / names.PARTITION_METADATA))
        except (OSError, ValueError):
            return False
        is_possible = partition.is_online and copy.parent not in (partition.directory, *self._directories.offline)
        return is_possible and partition.topic_id == topic_id and partition.topic_partition not in self._moves

    # -------------------------------------------------------------------------------------------- what is under way

    def __iter__(self) -> Iterator[MoveState]:
        for topic_partition, move in list(self._moves.items()):
            if move.is_cancellable:
                yield MoveState(topic_partition, move.target, move.copy.size, move.copy.offset_lag)

    def __len__(self) -> int:
        return len(self._moves)

    # -------------------------------------------------------------------------------------------- moving

    def _start(self, partition: Partition, target: Path, *, may_block: bool = False) -> None:
        if self._stopping.is_set():
            return
        name = partition.topic_partition
        move = LogMove(self._directories, self._files, partition.log, target, self._clock.now_ms)
        self._moves[name] = move
        logger.info("partition %s is copied from %s to %s", name, move.source, target)
        steps = move.steps()
        making = next(steps)
        assert isinstance(making, CopyStep)
        if may_block:
            making.run()
        else:
            self._unmade[name] = asyncio.Event()
        run = self._run(partition, move, steps, None if may_block else making)
        self._tasks[name] = asyncio.get_running_loop().create_task(run, name=f"move {name}")

    async def _run(
        self, partition: Partition, move: LogMove, steps: Iterator[CopyStep | Pause], making: CopyStep | None
    ) -> None:
        name = partition.topic_partition
        try:
            if making is not None:
                await asyncio.to_thread(making.run)
                self._unmade.pop(name).set()
            await self._advance(move, steps)
        except Exception:  # other moves go on
            logger.exception("moving %s failed", name)
            move.abandon()
        finally:
            _log_end(name, move)
            del self._moves[name], self._tasks[name]
            unmade = self._unmade.pop(name, None)
            if unmade is not None:
                unmade.set()
            self._go_on(name)

    def _go_on(self, name: TopicPartition) -> None:
        """Begins the move that was requested during another move."""
        partition, target = self._wanted.pop(name, (None, None))
        if partition is None or target is None or self._partitions.find(*name) is not partition:
            return
        if partition.is_online and target != partition.directory:
            self._start(partition, target)

    async def _advance(self, move: LogMove, steps: Iterator[CopyStep | Pause]) -> None:
        is_over = False
        while not is_over:
            async with self._copying:
                is_over = await self._copy(move, steps)
            if not is_over:
                await self._rest(_LOOK_AGAIN_MS)

    async def _copy(self, move: LogMove, steps: Iterator[CopyStep | Pause]) -> bool:
        """Copies until the move has to wait for something else than its turn. Returns whether the copy is complete."""
        for step in steps:
            if isinstance(step, Pause):
                return False
            await asyncio.to_thread(step.run)
            rest_ms = self.pace(step.size)
            while rest_ms > 0 and move.may_rest:
                await self._rest(min(rest_ms, _LONGEST_REST_MS))
                rest_ms = self.pace(0)
        return True

    async def _rest(self, rest_ms: int) -> None:
        try:
            async with asyncio.timeout(rest_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Copies stay for the next start. A log that has changed over settles first."""
        self._stopping.set()
        self._wanted.clear()
        for move in self._moves.values():
            move.is_stopping = True
        self._wake()
        await asyncio.gather(*self._tasks.values())


def _log_end(name: TopicPartition, move: LogMove) -> None:
    if move.ending is Ending.MOVED:
        logger.info("partition %s has moved to %s", name, move.target)
    elif move.ending is not None:
        logger.warning("partition %s stays in %s: its move to %s %s", name, move.source, move.target, move.ending.value)
