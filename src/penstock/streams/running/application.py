"""Runs an application: its topics are made, its identity is checked, and its queries run as one pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.pipelines.pipeline import Settings
from penstock.streams.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.running.runner import Run


class Application(Protocol):
    """What `penstock.streams.app.Streams` is to those who run it."""

    @property
    def settings(self) -> Settings: ...

    def plan(self) -> Plan: ...


def run(app: Application, master: str | None = None, once: bool = False) -> None:
    """Until it is interrupted (Ctrl-C, SIGTERM) or, with `once`, until it has caught up."""
    raise NotImplementedError


def open_run(spark: SparkSession, app: Application, *, once: bool = False) -> Run:
    """A run in a session that is there, not started: `start` makes what is missing and checks what is there; `wait` as
    of any pipeline's run."""
    raise NotImplementedError
