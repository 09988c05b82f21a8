"""Shows what a run waits for before it has any progress to show, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


class Elapsed:
    """Drawn anew several times a second: what is waited for, what it does now, and the seconds so far."""

    def __init__(self, what: str, doing: Callable[[], str], now: Callable[[], float] = time.monotonic) -> None:
        from rich.spinner import Spinner

        self._what, self._doing, self._now = what, doing, now
        self._started = now()
        self._spinner = Spinner("dots", style="cyan")

    @property
    def seconds(self) -> float:
        return self._now() - self._started

    @property
    def text(self) -> str:
        doing = self._doing()
        return f"{self._what}{': ' if doing else ''}{doing} ... {self.seconds:.0f} s"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self._spinner.update(text=self.text)
        yield self._spinner


@contextmanager
def waiting(console: Console, what: str, done: str, doing: Callable[[], str] = lambda: "") -> Iterator[None]:
    """A line `done after 14 s` stays. Another thread may call `doing`."""
    from rich.live import Live

    elapsed = Elapsed(what, doing)
    if console.is_terminal:
        with Live(elapsed, console=console, refresh_per_second=8, transient=True):
            yield
    else:
        console.print(f"{what} ...", highlight=False)
        yield
    console.print(f"{done} after {elapsed.seconds:.0f} s", highlight=False)
