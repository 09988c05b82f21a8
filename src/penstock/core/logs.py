"""Log lines, structured, from the standard library alone (ADR 5).

    logger = logging.getLogger(__name__)
    logger.warning("partition is offline", extra={"topic": "orders", "partition": 3, "reason": "disk full"})

As text, for a person:   2026-03-01 12:00:00.123 WARN  log.partition: partition is offline topic=orders partition=3
As JSON, for a program:  {"time": "2026-03-01T12:00:00.123Z", "level": "WARN", "logger": ..., "topic": "orders"}

A client's text may appear in a line, so control characters are always escaped: no client can forge a second line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

ROOT_LOGGER = "penstock"
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")

# Enough for the longest useful value (a path, an exception's text); a client may send 100 MB where a name is expected.
MAX_VALUE_CHARACTERS = 2_000

_LEVEL_NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
_NEEDS_QUOTES = re.compile(r'[\s="\x00-\x1f\x7f-\x9f\u2028\u2029]|^$')
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_COLOURS = {"DEBUG": "\x1b[2m", "INFO": "\x1b[32m", "WARN": "\x1b[33m", "ERROR": "\x1b[31m", "FATAL": "\x1b[1;31m"}
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


def configure(format: str = "text", level: str = "info", stream: TextIO | None = None) -> logging.Handler:  # noqa: A002
    """Send the lines of every `penstock` logger to `stream` (standard error by default). May be called again."""
    if format not in FORMATS:
        raise ValueError(f"log format must be one of {', '.join(FORMATS)}, not {format!r}")
    if level.lower() not in LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LEVELS)}, not {level!r}")
    # A process that was started without standard error has none: its lines are lost.
    chosen_stream = stream or sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    handler = logging.StreamHandler(chosen_stream)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter(colours=chosen_stream.isatty()))
    root = logging.getLogger(ROOT_LOGGER)
    for earlier in [known for known in root.handlers if getattr(known, "set_by_configure", False)]:
        root.removeHandler(earlier)
    handler.set_by_configure = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(level.upper())
    # An embedding program that configured the root logger as well would print each line twice.
    root.propagate = False
    return handler


class TextFormatter(logging.Formatter):
    def __init__(self, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        level = _level(record)
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created)) + f".{int(record.msecs):03d}"
        fields = "".join(f" {name}={_quote(value)}" for name, value in _fields(record).items())
        shown_level = level.ljust(5)
        if self._colours:
            moment = f"{_DIM}{moment}{_RESET}"
            shown_level = f"{_COLOURS.get(level, '')}{shown_level}{_RESET}"
            fields = fields and f"{_DIM}{fields}{_RESET}"
        line = f"{moment} {shown_level} {_short_name(record.name)}: {_printable(record.getMessage())}{fields}"
        trace = _trace(record)
        # Indented, so that an exception whose text has line breaks cannot pass for a line of its own.
        return line + "".join(f"\n    {_printable(part)}" for part in trace.splitlines())


class JsonFormatter(logging.Formatter):
    """One object per line. Fields of the line come before extras; an extra never replaces one of them."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line: dict[str, Any] = {
            "time": moment,
            "level": _level(record),
            "logger": _short_name(record.name),
            "message": _shorten(record.getMessage()),
        }
        for name, value in _fields(record).items():
            line.setdefault(name, value if isinstance(value, int | float | None) else _shorten(_text(value)))
        trace = _trace(record)
        if trace:
            line["exception"] = trace
        return json.dumps(line)


class Limiter:
    """Decides whether a line may be written: at most `burst` lines of one key in each `interval_ms`.

    `allow` returns how many lines of this key were held back since the last one that was written, or None when the
    caller must hold this one back too. Keys beyond `max_keys` share one budget, so a storm of different keys is
    bounded as well.
    """

    __slots__ = ("_burst", "_interval_ms", "_max_keys", "_windows")

    def __init__(self, interval_ms: int = 10_000, burst: int = 1, max_keys: int = 1_000) -> None:
        self._interval_ms = interval_ms
        self._burst = burst
        self._max_keys = max_keys
        self._windows: dict[str, list[int]] = {}  # key -> [start of the window, lines in it, lines held back]

    def allow(self, key: str, now_ms: int) -> int | None:
        if key not in self._windows and len(self._windows) >= self._max_keys:
            self._forget_ended(now_ms)
            if len(self._windows) >= self._max_keys:
                key = ""
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = [now_ms, 1, 0]
            return 0
        if now_ms - window[0] >= self._interval_ms:
            held_back = window[2]
            window[:] = [now_ms, 1, 0]
            return held_back
        if window[1] < self._burst:
            window[1] += 1
            return 0
        window[2] += 1
        return None

    def _forget_ended(self, now_ms: int) -> None:
        self._windows = {key: value for key, value in self._windows.items() if now_ms - value[0] < self._interval_ms}


# Lines of one kind that a client can cause in ten seconds: enough to see what single clients do, far too few to fill a
# disk.
CLIENT_BURST = 20


class RateLimitedLog:
    """Writes through a limiter; the next line that is written has the number of lines held back."""

    __slots__ = ("_limiter", "_log", "_monotonic_ms")

    def __init__(self, log: logging.Logger, limiter: Limiter, monotonic_ms: Callable[[], int]) -> None:
        self._log = log
        self._limiter = limiter
        self._monotonic_ms = monotonic_ms

    def once_per(
        self,
        key: str,
        level: int,
        message: str,
        extra: Mapping[str, object] | None = None,
        error: BaseException | None = None,
    ) -> bool:
        """Write `message`, with the traceback of `error`, unless `key` has had its share. True if it was written."""
        held_back = self._limiter.allow(key, self._monotonic_ms())
        if held_back is None:
            return False
        fields = dict(extra or {})
        if held_back:
            fields["held_back"] = held_back
        self._log.log(level, message, extra=fields, exc_info=error)
        return True


def _level(record: logging.LogRecord) -> str:
    return _LEVEL_NAMES.get(record.levelname, record.levelname)


def _short_name(name: str) -> str:
    return name.removeprefix(ROOT_LOGGER + ".")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}


def _trace(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _shorten(text: str) -> str:
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return f"{text[:MAX_VALUE_CHARACTERS]}... ({len(text)} characters)"


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(_escape, _shorten(text))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _quote(value: object) -> str:
    text = _shorten(_text(value))
    return json.dumps(text, ensure_ascii=bool(_UNPRINTABLE.search(text))) if _NEEDS_QUOTES.search(text) else text
