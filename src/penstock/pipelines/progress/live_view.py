"""Shows how something goes: a table that stays in place on a terminal, lines now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live


class LiveView:
    def __init__(self, console: Console, line_every_s: float, *, is_transient: bool) -> None:
        self._console = console
        self._line_every_s = line_every_s
        self._is_transient = is_transient
        self._live: Live | None = None
        self._next_line = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, refresh_per_second=4, transient=self._is_transient)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def width(self) -> int:
        """Of the terminal as it is now."""
        return self._console.width

    def update(
        self, render: Callable[[], RenderableType], lines: Callable[[], Iterable[str]], is_last: bool = False
    ) -> None:
        if self._live is not None:
            self._live.update(render())
        elif is_last or time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + self._line_every_s
            for line in lines():
                self._console.print(line, highlight=False, soft_wrap=True)
