"""The engine starts on a thread of its own, while options are checked, brokers asked and statements typed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.cli.commands.sql.engine import Engine
from penstock.cli.commands.sql.statements import explained
from penstock.cli.progress import is_watched

_LOOK_SECONDS = 0.1
# A start that is quicker is not worth a word.
_SILENCE_SECONDS = 0.3
_DOING = "starting Spark"


class Starting:
    """`open_engine` starts Spark; `warm_up` makes its first answer quick, and nobody waits for it."""

    def __init__(self, open_engine: Callable[[], Engine], warm_up: Callable[[Engine], None] | None = None) -> None:
        self._open_engine, self._warm_up = open_engine, warm_up
        self._engine: Engine | None = None
        self._error: BaseException | None = None
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-sql-start", daemon=True)
        self._started = 0.0

    def start(self) -> None:
        self._started = time.monotonic()
        self._thread.start()

    @contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        """What is raised within ends the start at once, and Spark with it."""
        from penstock.pipelines.runtime.spark.jvm import JVM

        try:
            yield
        except Exception:
            JVM.end()
            raise

    def engine(self) -> Engine:
        """Waits for it, and says so to a person. Raises CliError."""
        if not self._is_done.is_set():
            self._wait_visibly()
        if self._error is not None:
            from penstock.pipelines.errors import PipelineError

            raise explained(self._error) if isinstance(self._error, PipelineError) else self._error
        assert self._engine is not None
        return self._engine

    def state(self) -> str:
        return "" if self._is_done.is_set() else f"{_DOING} ..."

    def _run(self) -> None:
        try:
            self._engine = self._open_engine()
        except BaseException as error:  # noqa: BLE001  # raised again where the engine is asked for
            self._error = error
        self._is_done.set()
        if self._engine is not None and self._warm_up is not None:
            self._warm_up(self._engine)

    def _wait_visibly(self) -> None:
        if not is_watched():
            self._is_done.wait()
            return
        self._is_done.wait(max(0.0, self._started + _SILENCE_SECONDS - time.monotonic()))
        try:
            while not self._is_done.wait(_LOOK_SECONDS):
                sys.stderr.write(f"\r{_DOING} ... {time.monotonic() - self._started:.0f} s")
                sys.stderr.flush()
        finally:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
