from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.streams import StreamsError, hopping, json, registry, session, sliding, text, tumbling, within
from penstock.streams.topology.formats import check_readable
from penstock.streams.topology.windows import JoinWindow, Window, WindowKind


def test_windows_are_milliseconds_when_they_are_made() -> None:
    assert tumbling("1 minute") == Window(WindowKind.TUMBLING, 60_000, 60_000, None)
    assert hopping("5 minutes", every="1 minute", grace="0 seconds") == Window(WindowKind.HOPPING, 300_000, 60_000, 0)
    assert sliding("10 seconds", grace="5 seconds") == Window(WindowKind.SLIDING, 10_000, 10_000, 5000)
    assert session("30 minutes").size_ms == 1_800_000
    assert within("10 seconds", after="1 second") == JoinWindow(10_000, 1000)
    assert within(before="10 seconds") == JoinWindow(10_000, 0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hopping("1 minute", every="2 minutes"), "leave time between"),
        (lambda: tumbling("0 seconds"), "longer than nothing"),
        (within, "no duration"),
        (lambda: json(" "), "no columns"),
        (lambda: registry(schema_type="XML"), "no type of schema"),  # type: ignore[arg-type]
        (lambda: check_readable(json(), "the value of clicks"), "the value of clicks is read as JSON"),
        (lambda: check_readable("json", "the value of clicks"), "no format"),  # type: ignore[arg-type]
    ],
)
def test_windows_and_formats_are_refused_when_they_cannot_be(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(StreamsError, match=said):
        make()


def test_text_is_readable_when_nobody_says_columns() -> None:
    assert check_readable(text(), "the key") == text()
