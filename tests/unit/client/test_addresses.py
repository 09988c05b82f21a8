"""Which servers count as silent in one run of a program."""

from __future__ import annotations

import pytest

from penstock.client.addresses import Heard
from penstock.client.connection import ConnectionClosedError
from penstock.protocol.errors import ApiError, ErrorCode

FIRST, SECOND = ("a", 1), ("b", 2)


def test_server_is_asked_last_and_not_for_long_when_its_time_ran_out() -> None:
    heard = Heard()
    heard.note_failure(FIRST, TimeoutError())
    assert heard.order([FIRST, SECOND]) == [SECOND, FIRST]
    assert heard.patience(FIRST, 5.0) < heard.patience(SECOND, 5.0) == 5.0


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(), ConnectionClosedError("gone"), ApiError(ErrorCode.NOT_CONTROLLER)]
)
def test_server_keeps_its_place_and_its_time_when_it_failed_at_once(error: Exception) -> None:
    heard = Heard()
    heard.note_failure(FIRST, error)
    assert heard.order([FIRST, SECOND]) == [FIRST, SECOND]
    assert heard.patience(FIRST, 5.0) == 5.0
