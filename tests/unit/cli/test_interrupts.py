from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.cli.main import _interrupted_with_a_line

# A callback of a weak reference, as imports have them: what is raised in it is dropped.
_DROPPED = """
import os, signal, sys, time, weakref
from penstock.cli.main import _interrupted_with_a_line
from penstock.pipelines.runtime.spark.signals import left_by_termination

class Module: ...

number = signal.Signals[sys.argv[1]]
module = Module()
watch = weakref.ref(module, lambda _: os.kill(os.getpid(), number))
with _interrupted_with_a_line(), left_by_termination():
    try:
        del module
        time.sleep(60)
    except (KeyboardInterrupt, SystemExit) as error:
        print(type(error).__name__)
"""


class Callback:
    """What its end raises is dropped, too."""

    def __del__(self) -> None:
        raise ValueError("a mistake")


@pytest.mark.parametrize(("number", "error"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "SystemExit")])
def test_a_signal_comes_again_when_it_came_where_python_drops_its_error(number: str, error: str) -> None:
    run = subprocess.run([sys.executable, "-c", _DROPPED, number], capture_output=True, text=True, timeout=50)
    assert (run.stdout, run.stderr, run.returncode) == (f"{error}\n", "", 0)


def test_other_dropped_errors_go_to_the_hook_that_was_there_when_a_command_runs_in_a_program() -> None:
    dropped: list[str] = []
    own = sys.unraisablehook
    hook = sys.unraisablehook = lambda told: dropped.append(str(told.exc_value))
    try:
        with _interrupted_with_a_line():
            Callback()
        assert sys.unraisablehook is hook
    finally:
        sys.unraisablehook = own
    assert dropped == ["a mistake"]
