"""What a broker in this process logs while rounds abuse it: a traceback is a failure that nobody thought of.

Everything else that the broker says of damage and refusals is right, and a thousand rounds of it are not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOGGERS = ("penstock", "asyncio")


class _Listener(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        is_complaint = record.name.startswith("asyncio") and record.levelno >= logging.WARNING
        if record.exc_info or is_complaint:
            error = record.exc_info[1] if record.exc_info else None
            self._note(f"{record.name}: {record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def tracebacks_noted(note: Callable[[str], None]) -> Iterator[None]:
    """`note` is told of each traceback, and of each complaint of asyncio; nothing reaches other handlers meanwhile."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.propagate, list(logger.handlers)) for logger in loggers]
    for logger in loggers:
        logger.propagate, logger.handlers = False, [_Listener(note)]
    try:
        yield
    finally:
        for logger, (propagate, handlers) in zip(loggers, before, strict=True):
            logger.propagate, logger.handlers = propagate, handlers
