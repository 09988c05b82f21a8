"""What is left behind when a test of a topology cannot begin: nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.streams import Streams, TopologyTest, registry


class NoSession:
    def newSession(self) -> Any:
        raise RuntimeError("no session today")


def test_no_registry_goes_on_when_the_session_cannot_be_had() -> None:
    app = Streams("formats")
    app.stream("clicks", value=registry()).to("copied", value=registry())
    before = set(threading.enumerate())
    session: Any = NoSession()
    with pytest.raises(RuntimeError, match="no session today"):
        TopologyTest(app, session)
    assert set(threading.enumerate()) <= before
