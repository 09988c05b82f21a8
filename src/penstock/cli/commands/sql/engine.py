"""What the command needs of the engine that answers: a few methods, so that a test can stand in for Spark."""

from __future__ import annotations

from typing import Protocol

from penstock.pipelines.sql.answers import SqlAnswer


class Engine(Protocol):
    def run(self, text: str) -> SqlAnswer:
        """One statement without its semicolon. Raises PipelineError."""
        ...

    def cancel(self) -> None:
        """Ends what runs, from another thread; `run` and the rows it gave raise. Does nothing where nothing runs."""
        ...

    def trouble(self) -> str:
        """What may keep the answer away, such as a broker that does not answer; empty if nothing does. It is asked on
        another thread than `run`."""
        ...

    def late_notices(self) -> tuple[str, ...]:
        """What is known only once all rows were read: how many were skipped. On the thread of `run`."""
        ...

    def warm_up(self) -> None:
        """Makes the first answer quick. Fails silently."""
        ...


class Known(Protocol):
    """The tables there are, for completion. It is there before the engine is."""

    def names(self) -> list[str]: ...

    def columns(self, name: str) -> list[str]: ...
