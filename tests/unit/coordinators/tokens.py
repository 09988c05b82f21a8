"""Tokens for tests: what a request leaves with a coordinator, to be answered once."""

from __future__ import annotations

from penstock.coordinators.outcome import Result
from penstock.protocol.errors import ErrorCode


class Receipt:
    """Keeps its reply among `replies`."""

    def __init__(self, replies: dict[object, Result]) -> None:
        self._replies = replies

    def release(self, result: Result) -> None:
        assert self not in self._replies, "answered twice"
        self._replies[self] = result


class Nobody:
    """Does not want to know."""

    def release(self, result: Result) -> None:
        pass


NOBODY = Nobody()


def error_of(result: Result) -> ErrorCode:
    """Of a result that has one for everything."""
    error = getattr(result, "error", None)
    assert isinstance(error, ErrorCode)
    return error
