"""For tests of what is told before Spark starts: there is no JVM, and a start is an error that a test knows."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.spark import jvm, session

STARTED = "Error: Spark is started\n"


class NoJvm:
    def end(self) -> None:
        pass


def start(*_: Any) -> Any:
    raise PipelineError("Spark is started")


def forbid_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "open_session", start)
    monkeypatch.setattr(jvm, "JVM", NoJvm())
