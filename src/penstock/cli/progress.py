"""A progress bar on stderr while a person watches; nothing at all when nobody does."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

Advance = Callable[[int], None]


def is_watched() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def progress(description: str, total: int | None, *, enabled: bool = True, in_bytes: bool = False) -> Iterator[Advance]:
    """Yields `advance(count)`. Without a total the bar only pulses and counts."""
    if not enabled or not is_watched():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counter = DownloadColumn(binary_units=True) if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5) as bar:
        task = bar.add_task(description, total=total)

        def advance(count: int) -> None:
            bar.advance(task, count)

        yield advance


def _ignore(_count: int) -> None:
    return None
