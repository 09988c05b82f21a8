from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from penstock.processes.uninterrupted_work import uninterrupted


def test_work_is_done_when_an_interrupt_comes_in_the_middle() -> None:
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    before = signal.getsignal(signal.SIGINT)
    done = []

    def work() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, inherited)


def test_child_can_be_stopped_when_it_was_started_meanwhile() -> None:
    with uninterrupted():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    child.terminate()
    assert child.wait(10) == -signal.SIGTERM


def test_nothing_is_changed_when_the_thread_hears_no_signals() -> None:
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
