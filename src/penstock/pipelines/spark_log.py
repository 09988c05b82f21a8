"""Writes the output of Spark, Java and Spark's Python workers to a file, which errors name for their readers.

The file is made with the first line: a run without such output leaves none. Only its owner can read it, because
Spark quotes rows. PENSTOCK_SPARK_LOG names another one; `-` is standard error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from penstock.pipelines.causes import first_cause
from penstock.pipelines.errors import PipelineError

VARIABLE = "PENSTOCK_SPARK_LOG"
_STDERR = "-"
# A pipeline runs for months, and its steps may print with every row: what is older than this many bytes goes, but for
# as much again in a second file.
_MOST_BYTES = 16 * 1024 * 1024
# Of earlier runs: enough to find yesterday's failure.
_MOST_FILES = 20
# PySpark logs by these what it raises.
PYSPARK_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_OWN_NAME = re.compile(r"\d{8}T\d{6}-(\d+)\.log")


class SparkLog:
    """See `SPARK_LOG`. For several threads."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._file: int | None = None
        self._size = 0

    def open(self, environment: Mapping[str, str] = os.environ) -> None:
        """Chooses the file. Does nothing where one was chosen."""
        with self._lock:
            if self._path is not None:
                return
            given = environment.get(VARIABLE)
            self._path = Path(given) if given else _own_file(environment)

    @property
    def path(self) -> Path | None:
        """None before `open`, and where standard error takes everything."""
        return None if str(self._path) == _STDERR else self._path

    def write(self, text: bytes) -> None:
        """Whole lines. A disk that is full, or a file that cannot be made, ends nothing: the text is lost."""
        with self._lock, contextlib.suppress(OSError):
            if self.path is None:
                os.write(2, text)
                return
            if self._file is None or self._size > self._most_bytes:
                self._begin(self.path)
            assert self._file is not None
            self._size += os.write(self._file, text)

    @property
    def place(self) -> str:
        """For users: the place of the log."""
        return "What Spark said is above." if self.path is None else f"What Spark said is in {self.path}"

    def keep(self, error: BaseException) -> bool:
        """Writes down what Spark has raised on the way to the error. False where Spark raised nothing, or where there
        is no file."""
        raised = [each for each in _chain(error) if _is_of_spark(each)]
        if self.path is None or not raised:
            return False
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        for each in raised:
            self.write(f"{at} {type(each).__name__}: {each}\n".encode(errors="replace"))
        return True

    def _begin(self, path: Path) -> None:
        """A new file in place of one that is full. The one before stays beside it."""
        if self._file is not None:
            if (
                path.is_symlink() or not path.is_file()
            ):  # another program's, a device perhaps: our limit does not apply to it
                self._size = 0
                return
            os.close(self._file)
            self._file = None
            path.replace(path.with_name(f"{path.name}.1"))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size


def _own_file(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME", "~"), ".local", "state")
    directory = Path(base).expanduser() / "penstock" / "spark"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(directory)
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="penstock-spark-log-"))
    _remove_old(directory)
    return directory / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"


def _remove_old(directory: Path) -> None:
    """Removes the files of processes that have ended, all but the newest."""
    with contextlib.suppress(OSError):
        own = [path for path in sorted(directory.iterdir(), reverse=True) if _OWN_NAME.fullmatch(path.name)]
        for path in own[_MOST_FILES:]:
            found = _OWN_NAME.fullmatch(path.name)
            if found is not None and not _is_alive(int(found[1])):
                path.unlink(missing_ok=True)
                path.with_name(f"{path.name}.1").unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it comes from, the innermost last."""
    each: BaseException | None = error
    seen: set[int] = set()
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _is_of_spark(error: BaseException) -> bool:
    """By where its class is from: nothing of Spark is imported for an error that Spark has no part in."""
    return any(kind.__module__.partition(".")[0] in ("pyspark", "py4j") for kind in type(error).__mro__)


def take_over_logs() -> None:
    """Sends the logs of PySpark and py4j in this process to the file: they also log what they raise to standard error,
    PySpark as JSON with all of Java's stack."""
    from pyspark.logger import PySparkLogger

    for logger in (logging.getLogger("py4j"), *map(PySparkLogger.getLogger, PYSPARK_LOGGERS)):
        if not any(isinstance(handler, _ToFile) for handler in logger.handlers):
            logger.handlers[:] = [_ToFile()]
            logger.propagate = False


class _ToFile(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        SPARK_LOG.write(f"{self.format(record)}\n".encode(errors="replace"))


def told_of(error: Exception) -> PipelineError | None:
    """Spark's error in a sentence. None for an error that is not Spark's."""
    return PipelineError(f"Spark failed: {first_cause(str(error))}") if _is_of_spark(error) else None


def hint_of(error: PipelineError, log: SparkLog | None = None) -> str:
    """The error's own hint, and where Spark's words are if there are any that say more."""
    log = log or SPARK_LOG
    if error.says_all or not log.keep(error) or log.place in error.hint:
        return error.hint
    return f"{error.hint}\n{log.place}" if error.hint else log.place


# One for each process, as Spark's JVM is.
SPARK_LOG = SparkLog()
