"""The file for what Spark says: when it is there, who may read it, how large it gets, and who is told of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from penstock.pipelines.errors import MissingError, PipelineError
from penstock.pipelines.spark_log import SparkLog, hint_of, told_of

STATE = "penstock/spark"


def opened(directory: Path, most_bytes: int = 1000) -> SparkLog:
    log = SparkLog(most_bytes)
    log.open({"XDG_STATE_HOME": str(directory)})
    return log


def of_spark(message: str) -> PipelineError:
    error = PipelineError(message, "Do this.")
    error.__cause__ = Py4JError("a hundred lines")
    return error


def test_no_file_is_made_when_nothing_is_said(tmp_path: Path) -> None:
    opened(tmp_path)
    assert list((tmp_path / STATE).iterdir()) == []


def test_the_file_is_its_owners_alone_when_something_is_said_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log = opened(tmp_path)
        log.write(b"a line\n")
    finally:
        os.umask(before)
    assert log.path is not None
    assert log.path.read_bytes() == b"a line\n"
    assert log.path.stat().st_mode & 0o777 == 0o600
    assert log.path.parent.stat().st_mode & 0o777 == 0o700


def test_two_files_are_kept_when_more_is_said_than_one_may_hold(tmp_path: Path) -> None:
    log = opened(tmp_path, most_bytes=10)
    for number in range(10):
        log.write(b"line %d\n" % number)
    assert log.path is not None
    assert log.path.read_bytes() == b"line 8\nline 9\n"
    assert log.path.with_name(f"{log.path.name}.1").read_bytes() == b"line 6\nline 7\n"


def test_files_of_earlier_runs_go_when_there_are_many_but_none_of_a_process_that_lives(tmp_path: Path) -> None:
    directory = tmp_path / STATE
    directory.mkdir(parents=True)
    dead = [directory / f"20260101T0000{number:02}-4194399.log" for number in range(30)]
    alive = directory / f"20250101T000000-{os.getpid()}.log"
    other = directory / "notes.txt"
    for path in (*dead, alive, other):
        path.touch()
    opened(tmp_path)
    assert sorted(directory.iterdir()) == sorted([*dead[-20:], alive, other])


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/nowhere"])
def test_nothing_fails_when_the_directory_cannot_be_made(place: str, tmp_path: Path) -> None:
    log = SparkLog()
    log.open({"XDG_STATE_HOME": place})
    log.write(b"a line\n")
    assert log.path is not None
    assert log.path.read_bytes() == b"a line\n"
    log.path.unlink()
    log.path.parent.rmdir()
    unwritable = SparkLog()
    unwritable.open({"PENSTOCK_SPARK_LOG": f"{place}/log"})
    unwritable.write(b"lost\n")


def test_standard_error_takes_all_when_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    log = SparkLog()
    log.open({"PENSTOCK_SPARK_LOG": "-"})
    log.write(b"a line\n")
    assert capfd.readouterr().err == "a line\n"
    assert log.path is None


def test_the_file_is_named_and_has_it_all_when_an_error_comes_from_spark(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert hint_of(of_spark("it failed"), log) == f"Do this.\nWhat Spark said is in {log.path}"
    assert log.path is not None
    assert "Py4JError: a hundred lines\n" in log.path.read_text()
    named = PipelineError("Java did not start", log.place)
    named.__cause__ = Py4JError("x")
    assert hint_of(named, log) == log.place


@pytest.mark.parametrize("is_open", [True, False])
def test_no_file_is_named_when_spark_has_no_part_in_an_error_or_nothing_to_add(tmp_path: Path, is_open: bool) -> None:
    log = opened(tmp_path) if is_open else SparkLog()
    assert hint_of(PipelineError("no topic", "Make it."), log) == "Make it."
    missing = MissingError("there is no column x", "there is y")
    missing.__cause__ = Py4JError("a hundred lines")
    assert hint_of(missing, log) == "there is y"
    if not is_open:
        assert hint_of(of_spark("it failed"), log) == "Do this."


def test_what_spark_raises_is_a_sentence_when_nobody_has_explained_it() -> None:
    told = told_of(Py4JError("An error occurred\n[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n\tat x"))
    assert told is not None
    assert told.message == "Spark failed: [DIVIDE_BY_ZERO] Division by zero."
    assert told_of(ValueError("ours")) is None
