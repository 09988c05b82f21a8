"""What a command shows for as long as it runs: in place on a terminal; elsewhere anew whenever it has changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from penstock.cli import output
from penstock.core.words.visible_text import harmless

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

View = TypeVar("View")


class Display(Generic[View]):
    """`render(view, is_last)` is for a terminal, `print_plain(view)` for everything else. Views that are equal are
    shown once.
    """

    def __init__(self, render: Callable[[View, bool], RenderableType], print_plain: Callable[[View], None]) -> None:
        self._render = render
        self._print_plain = print_plain
        self._live: Live | None = None
        self._shown: View | None = None

    def __enter__(self) -> Self:
        if output.is_terminal():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            if self._shown is not None:
                self._live.update(self._render(self._shown, True))
            self._live.stop()

    def tell(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(harmless(text), highlight=False, markup=False, soft_wrap=True)
        else:
            output.note(text)

    def show(self, view: View) -> None:
        if view == self._shown:
            return
        self._shown = view
        if self._live is not None:
            self._live.update(self._render(view, False), refresh=True)
        else:
            self._print_plain(view)
            sys.stdout.flush()  # a pipe shows it now, not when 8 KiB have come together
