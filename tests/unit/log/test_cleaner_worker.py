"""The parts of the cleaner's process that need no process."""

from __future__ import annotations

import pytest

from penstock.log.compaction.worker import messages
from penstock.log.compaction.worker.messages import Lines
from penstock.log.compaction.worker.worker_process import ByteRate


def test_rest_grows_with_the_bytes_when_a_rate_is_set() -> None:
    rate = ByteRate(1_000)
    assert rate.rest_after(500, 0.1) == pytest.approx(0.4)
    assert rate.rest_after(0, 0.3) == pytest.approx(0.1)
    assert rate.rest_after(0, 60.0) == 0.0
    assert rate.rest_after(100, 0.0) == pytest.approx(0.1)
    rate.change(1.7976931348623157e308)
    assert rate.rest_after(1 << 40, 0.0) == pytest.approx(0.0)
    rate.change(0.0)
    assert rate.rest_after(1 << 40, 0.0) == 0.0
    assert not rate.is_ahead(1 << 40, 0.02)


def test_lines_come_whole_when_the_bytes_come_in_pieces() -> None:
    lines = Lines()
    lines.feed(b'{"a"')
    assert lines.take() is None
    lines.feed(b":1}\n{}\nTrace")
    assert [messages.decode(lines.take() or b"") for _ in range(2)] == [{"a": 1}, {}]
    assert (lines.take(), lines.rest(), messages.decode(b"Traceback")) == (None, b"Trace", None)
