"""Log levels of the running process: BROKER_LOGGER resources show and change them.

The loggers are those below `penstock`; `root` is `penstock` itself, never the root logger of a program that embeds the
broker. A level that a client sets is lost at a restart, as in Kafka. Rules:

- Only existing loggers can be changed. A client cannot make new loggers, so their number stays bounded.
- The names of levels are Kafka's. Penstock logs nothing below DEBUG, so TRACE shows no more lines than DEBUG does.
- A resource changes as a whole or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from penstock.core.config.describe import ConfigEntry
from penstock.core.config.resources import ConfigChange, ConfigOperation, ConfigSource
from penstock.core.config.types import ConfigKind
from penstock.core.logs import ROOT_LOGGER
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger("penstock.broker.log_levels")

ROOT = "root"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def describe_levels(names: Collection[str] | None = None, *, top: str = ROOT_LOGGER) -> list[ConfigEntry]:
    """Lists each logger with the level in effect, its own or an inherited level; an empty or missing `names`
    means all.
    """
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(name, _level_name(each), source, False, False, (), ConfigKind.UNKNOWN, None)
        for name, each in sorted(_loggers(top).items())
        if not names or name in names
    ]


def alter_levels(
    changes: Sequence[ConfigChange], *, changed_by: str, validate_only: bool = False, top: str = ROOT_LOGGER
) -> None:
    """Raises ApiError, with Kafka's codes and words, when one of the changes is impossible; then makes no change."""
    loggers = _loggers(top)
    for change in changes:
        _check(change, loggers)
    if validate_only:
        return
    before = {change.name: _level_name(loggers[change.name]) for change in changes}
    for name, operation, value in changes:
        level = logging.NOTSET if operation is ConfigOperation.DELETE else LEVELS[value or ""]
        loggers[name].setLevel(level)
    changed = {name: shown for name in before if (shown := _level_name(loggers[name])) != before[name]}
    if changed:
        # A warning, as in Kafka: a reader of the log has to know the reason for missing or frequent lines.
        levels = ", ".join(f"{name}={shown}" for name, shown in changed.items())
        fields = {"levels": levels, "client": changed_by}
        # This line bypasses the levels, otherwise a client could silence the log without a trace.
        text = "log levels were changed"
        logger.handle(logger.makeRecord(logger.name, logging.WARNING, __file__, 0, text, (), None, extra=fields))


def _loggers(top: str) -> dict[str, logging.Logger]:
    """The existing loggers by name. Leaves out placeholders: packages that only have loggers below them."""
    known = logging.Logger.manager.loggerDict
    found = {
        name: each
        for name, each in list(known.items())  # another thread may make a logger meanwhile
        if name.startswith(f"{top}.") and isinstance(each, logging.Logger)
    }
    return {ROOT: logging.getLogger(top), **found}


def _level_name(each: logging.Logger) -> str:
    """The nearest of Kafka's names that is not above the level, so that no level reads as quieter than it is."""
    level = each.getEffectiveLevel()
    return next((name for name, number in reversed(LEVELS.items()) if number <= level), "TRACE")


def _check(change: ConfigChange, loggers: dict[str, logging.Logger]) -> None:
    name, operation, value = change
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        message = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    if name not in loggers:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is ConfigOperation.SET and value not in LEVELS:
        message = f"Cannot set the log level of {name} to {value} as it is not a supported log level."
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{message} Valid log levels are {', '.join(sorted(LEVELS))}")
    if operation is ConfigOperation.DELETE and name == ROOT:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
