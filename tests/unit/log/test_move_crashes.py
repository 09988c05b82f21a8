"""The broker ends at each file operation of a move, by a kill or by a power failure.

Whatever the moment, the next start finds one log of the partition, whole: after a kill with everything that was
appended, after a power failure with everything that was durable.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator

import pytest

from penstock.testing.disks.memory import DiskFault, MemoryFiles
from tests.unit.log.moving_rig import A, B, MovingDisk
from tests.unit.log.support import PARTITION, append, batch, read_all, sequenced
from tests.unit.log.test_power_cuts import WorstCase

_FIRST = 6


class _Killed(BaseException):
    """The process ends in the middle of a file operation."""


class Course:
    """A log with some segments moves while records come, until the disk ends it."""

    def __init__(self, is_flushed_always: bool) -> None:
        self.is_flushed_always = is_flushed_always
        self.disk = MovingDisk()
        self.appended: list[str] = []
        self.durable = 0
        self.sequence = 0

    def prepare(self) -> None:
        for _ in range(_FIRST):
            self.append()
        self.flush()
        self.disk.directories.write_checkpoints()
        self.append()

    def append(self) -> None:
        filler = "x" * 250
        self.appended += [f"s{self.sequence}", filler]  # they may be there although nobody was told
        append(self.disk.log, sequenced(self.sequence))
        self.sequence += 1
        append(self.disk.log, batch(filler))

    def flush(self) -> None:
        self.durable = self.disk.log.flushing.flush()

    def append_and_flush(self) -> None:
        self.append()
        self.flush()

    def run(self) -> None:
        """Some records come between any two steps; they are flushed every third time, or always."""
        now_and_then = (self.append, self.append, self.flush)
        always = (self.append_and_flush,)
        acts: Iterator[Callable[[], None]] = iter((always if self.is_flushed_always else now_and_then) * 100)
        self.disk.run(self.disk.move(step_bytes=900), lambda: next(acts)())
        self.append()
        self.flush()
        self.disk.directories.write_checkpoints()


def stopped_at(operation: int, is_flushed_always: bool) -> Course | None:
    """None when the course is over before."""
    course = Course(is_flushed_always)
    course.prepare()
    files = course.disk.files
    end = files.operations + operation

    def check(name: str, path: str) -> None:
        if files.operations == end:
            raise _Killed

    files.check = check
    try:
        course.run()
    except _Killed:
        files.check = None
        return course
    return None


def each_stop(stride: int, *, is_flushed_always: bool = False) -> Iterator[Course]:
    operation = 1
    while (course := stopped_at(operation, is_flushed_always)) is not None:
        yield course
        operation += stride
    assert operation > 50


def check_start(course: Course, least: int) -> None:
    disk = course.disk
    assert len(disk.places) == 1
    assert str(disk.log.directory.parent.name) == disk.places[0]
    values = [value for _, value in read_all(disk.log)]
    assert values == course.appended[: len(values)]
    assert len(values) >= least
    # Nothing stands in the way of what comes next: records, another crash, another move.
    count = sum(value.startswith("s") for value in values)
    append(disk.log, sequenced(count))
    disk.kill()
    disk.run(disk.move(B if disk.places == ["a"] else B.with_name("a")))
    assert [value for _, value in read_all(disk.log)] == [*values, f"s{count}"]
    assert disk.directories.logs[PARTITION].offline_reason is None


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_everything_is_there_once_when_the_broker_is_killed_at_any_file_operation_of_a_move(stride: int) -> None:
    for course in each_stop(stride):
        told = course.disk.log.log_end_offset
        course.disk.kill()
        check_start(course, told)


@pytest.mark.parametrize("is_flushed_always", [False, True])
@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_everything_durable_is_there_once_when_the_power_fails_at_any_file_operation_of_a_move(
    stride: int, is_flushed_always: bool
) -> None:
    for number, course in enumerate(each_stop(stride, is_flushed_always=is_flushed_always)):
        fates = [WorstCase(), *(random.Random(1000 * number + seed) for seed in range(1 if stride > 1 else 10))]
        files: MemoryFiles = course.disk.files
        for fate in fates:
            course.disk.files = files
            course.disk.cut_power(fate)
            check_start(course, course.durable)


def test_what_is_flushed_in_the_new_directory_is_there_when_the_power_fails_before_the_old_one_goes() -> None:
    course = Course(is_flushed_always=True)
    course.prepare()
    move = course.disk.move(step_bytes=9000)
    for step in move.steps():
        if move.has_changed_over:
            break
        course.disk.do(step)
    course.append_and_flush()
    course.disk.cut_power(WorstCase())
    check_start(course, course.durable)


@pytest.mark.parametrize("is_flushed_always", [False, True])
@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_everything_durable_is_there_once_when_the_power_fails_after_the_start_that_followed_a_kill(
    stride: int, is_flushed_always: bool
) -> None:
    """What only the page cache had is there after the kill. The start must not give up the other directory for it."""
    for course in each_stop(stride, is_flushed_always=is_flushed_always):
        course.disk.kill()
        course.disk.cut_power(WorstCase())
        check_start(course, course.durable)


def test_everything_durable_is_there_when_the_power_fails_after_a_start_without_the_old_directory() -> None:
    course = changed_over()
    course.disk.files = course.disk.files.after_kill()
    course.disk.files.check = refusing("", str(A))
    course.disk.start()
    course.disk.files.check = None
    course.disk.cut_power(WorstCase())
    check_start(course, course.durable)


def test_partition_is_offline_and_keeps_both_directories_when_the_new_one_cannot_be_made_durable() -> None:
    course = changed_over()
    course.disk.files = course.disk.files.after_kill()
    course.disk.files.check = refusing("sync", str(B))
    assert course.disk.start().offline_reason is not None
    assert course.disk.places == ["a", "b"]
    course.disk.files.check = None
    course.disk.kill()
    check_start(course, course.durable)


def changed_over() -> Course:
    """Nothing is synced since the log goes on in the new directory; everything was before."""
    course = Course(is_flushed_always=True)
    course.prepare()
    course.flush()
    move = course.disk.move(step_bytes=9000)
    for step in move.steps():
        if move.has_changed_over:
            break
        course.disk.do(step)
        course.append_and_flush()
    return course


def refusing(operation: str, beginning: str) -> Callable[[str, str], None]:
    """Every file operation, or those of one name, fails there."""

    def check(name: str, path: str) -> None:
        if path.startswith(beginning) and operation in ("", name):
            raise DiskFault(errno.EIO, "gone", path)

    return check
