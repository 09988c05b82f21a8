"""What a signal does to work on Spark, by how far the work has come."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from penstock.pipelines.runtime.spark.signals import Course, run_until_signalled, stopped_by_signals

WAIT_S = 30.0


class EndedError(Exception):
    """In place of the process's end."""


def end_process(code: int) -> None:
    raise EndedError(code)


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def run(work: Callable[[Course], str], spark: threading.Event) -> str:
    return run_until_signalled(work, end_spark=spark.set, end_process=end_process)


def test_result_and_error_of_the_work_come_through_when_no_signal_does() -> None:
    def fail(_: Course) -> str:
        raise ValueError("no")

    before = signal.getsignal(signal.SIGINT)
    assert run(lambda _: "done", threading.Event()) == "done"
    with pytest.raises(ValueError, match="no"):
        run(fail, threading.Event())
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_spark_ends_at_the_first_signal_when_nothing_is_to_be_finished(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    spark = threading.Event()

    def start(course: Course) -> str:
        with course.finished_by(lambda: pytest.fail("there is nothing to finish"), has_begun=lambda: False):
            interrupt(number)
            assert spark.wait(WAIT_S)
            raise ConnectionError("Spark is gone")

    with pytest.raises(EndedError, match="130"):
        run(start, spark)
    assert capsys.readouterr().err == "Error: interrupted while Spark started\n"


def test_work_is_finished_when_one_signal_comes_twice_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    spark, stopped = threading.Event(), threading.Event()

    def work(course: Course) -> str:
        with course.finished_by(stopped.set, "first it ends"):
            interrupt(signal.SIGTERM)
            interrupt(signal.SIGTERM)
            assert stopped.wait(WAIT_S)
        return "finished"

    assert run(work, spark) == "finished"
    assert not spark.is_set()
    assert capsys.readouterr().err == "first it ends\n"


def test_spark_ends_when_a_second_signal_comes(capsys: pytest.CaptureFixture[str]) -> None:
    spark, stopped = threading.Event(), threading.Event()

    def work(course: Course) -> str:
        with course.finished_by(stopped.set):
            interrupt()
            assert stopped.wait(WAIT_S)
            interrupt(signal.SIGTERM)
            assert spark.wait(WAIT_S)
        return "finished"

    with pytest.raises(EndedError, match="130"):
        run(work, spark)
    assert capsys.readouterr().err.splitlines()[1:] == ["Error: interrupted: the batches at work were not finished"]


def test_the_process_ends_when_the_work_does_not_end_with_spark(capsys: pytest.CaptureFixture[str]) -> None:
    is_over = threading.Event()

    def work(_: Course) -> str:
        interrupt()
        is_over.wait(WAIT_S)
        return "late"

    with pytest.raises(EndedError, match="130"):
        run_until_signalled(work, end_spark=lambda: None, end_process=end_process, patience_s=0.0)
    is_over.set()
    assert capsys.readouterr().err == "Error: interrupted while Spark started\n"


def test_a_program_hears_of_the_second_signal_when_it_has_stopped_at_the_first() -> None:
    stopped: list[str] = []

    def program() -> None:
        with stopped_by_signals(lambda: stopped.append("stop")):
            interrupt()
            interrupt()
            threading.Event().wait(0.15)  # what comes sooner is the same signal
            interrupt(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        program()
    assert stopped == ["stop", "stop"]


def test_a_program_is_stopped_when_the_signal_comes_while_it_holds_the_lock_that_stopping_takes() -> None:
    lock, is_stopped = threading.Lock(), threading.Event()
    got_lock: list[bool] = []

    def stop() -> None:
        got_lock.append(lock.acquire(timeout=WAIT_S))
        is_stopped.set()

    with stopped_by_signals(stop):
        with lock:
            interrupt(signal.SIGTERM)
        assert is_stopped.wait(WAIT_S)
    assert got_lock == [True]
