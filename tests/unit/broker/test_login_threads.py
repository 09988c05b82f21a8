from __future__ import annotations

import threading
import weakref

import pytest

from penstock.broker.login.threads import LoginThreads
from penstock.security.sasl.exchange import LoginError
from tests.clients.support import eventually


def fail() -> bytes:
    raise LoginError("no ticket")


def test_steps_come_back_with_their_token_or_their_error() -> None:
    threads = LoginThreads(2, "x")
    steps = [threads.submit(lambda number=number: bytes([number])) for number in range(10)]  # type: ignore[misc]
    failing = threads.submit(fail)
    assert [step.result(30) for step in steps] == [bytes([number]) for number in range(10)]
    with pytest.raises(LoginError, match="no ticket"):
        failing.result(30)
    threads.close()


def test_no_more_steps_run_at_once_than_there_are_threads() -> None:
    threads, gate, running = LoginThreads(2, "x"), threading.Event(), threading.Semaphore(0)

    def wait() -> bytes:
        running.release()
        gate.wait(30)
        return b""

    steps = [threads.submit(wait) for _ in range(4)]
    assert running.acquire(timeout=30)
    assert running.acquire(timeout=30)
    assert [step.running() for step in steps] == [True, True, False, False]
    assert steps[3].cancel()  # whoever waited has gone
    gate.set()
    assert [step.result(30) for step in steps[:3]] == [b""] * 3
    threads.close()


def test_process_ends_although_a_step_never_comes_back() -> None:
    threads, gate = LoginThreads(1, "only"), threading.Event()
    step = threads.submit(lambda: bytes(gate.wait()))
    threads.close()
    (thread,) = (each for each in threading.enumerate() if each.name == "penstock-login-only-1")
    assert thread.daemon
    gate.set()
    step.result(30)


class Token:
    """What a step holds of a client."""


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_of_a_step_is_kept_when_it_is_over_and_no_other_comes(fails: bool) -> None:
    threads, token = LoginThreads(1, "x"), Token()
    kept = weakref.ref(token)

    def step(_token: Token = token) -> bytes:
        return fail() if fails else b""

    assert threads.submit(step).exception(30) is None or fails
    del step, token
    eventually(lambda: kept() is None, "the token is gone")
    threads.close()


def test_step_is_refused_when_the_threads_are_closed() -> None:
    threads = LoginThreads(1, "x")
    threads.close()
    with pytest.raises(LoginError, match="the broker stops"):
        threads.submit(lambda: b"").result(30)
