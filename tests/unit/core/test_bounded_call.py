from __future__ import annotations

import threading

import pytest

from penstock.client.bounded_call import StuckCallError, call_within


def test_the_result_is_handed_on_when_the_call_returns() -> None:
    assert call_within(lambda: 5, 10.0) == 5
    assert call_within(lambda: None, 10.0) is None


def test_the_error_is_handed_on_when_the_call_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        call_within(lambda: 1 // 0, 10.0)


def test_the_caller_goes_on_when_the_call_does_not_return() -> None:
    release = threading.Event()
    with pytest.raises(StuckCallError):
        call_within(release.wait, 0.01)
    release.set()
