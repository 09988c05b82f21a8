"""Turns errors of Spark, brokers and the registry about a failed query into words for the user.

Every refusal names what is missing: a column (with near misses and the tables that have them), a topic, or a right. The
failure of a task has the text of its Python worker, such as the offset of a row that does not decode. Java's stack
traces stay with Java.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from penstock.client.registry import RegistryClientError
from penstock.pipelines.errors import MissingError, PipelineError, SqlError
from penstock.pipelines.source.cluster import ClusterError
from penstock.pipelines.source.direct_fetch import FetchError
from penstock.pipelines.spark_log import PYSPARK_LOGGERS
from penstock.protocol.errors import ApiError

_is_silenced: ContextVar[bool] = ContextVar("is_silenced", default=False)

_MISSING_TABLE: Final = "TABLE_OR_VIEW_NOT_FOUND"
_DECORATION = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE: \w+\.?;?|\s*== (?:SQL|DataFrame)\b.*", re.DOTALL)
_POSITION = re.compile(r"line (\d+),? pos (\d+)")
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
# The last line of a Python worker's traceback, and the lines of its message, until Java goes on.
_RAISED = re.compile(
    r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt)): (.*?)(?=^\s*at |^\s*$|^Traceback|\Z)", re.DOTALL | re.MULTILINE
)
_RIGHT = re.compile(r"(topic|group|cluster|transactional.?id)[_ ]authorization[_ ]failed", re.IGNORECASE)
_MOST_NEAR = 3
# The beginning of an error about a record that does not decode.
_PLACE = re.compile(r"topic \S+, partition \d+, offset \d+: ")
_BAD_ROWS_HINT = (
    "--bad-rows skip leaves such records out, --bad-rows null shows them with NULL; so does register(bad_rows=)"
)
_METASTORE_HINT = (
    "Its address is in hive-site.xml or in --set spark.hadoop.hive.metastore.uris=thrift://HOST:9083; without one Spark"
    " has its own in ./metastore_db, for one process at a time."
)
# How notes begin on a topic without a schema: its columns may surprise the user.
_GUESSED: Final = ("bytes", "inferred")
# The errors that users get in words. Any other error is one of ours, and keeps its traceback.
TOLD: Final = (PySparkException, Py4JJavaError, PipelineError, RegistryClientError, ClusterError, FetchError, ApiError)


def refusal_of(
    error: BaseException,
    text: str = "",
    *,
    topics: Callable[[], Iterable[str]] = tuple,
    columns: Mapping[str, Iterable[str]] | None = None,
    notes: Mapping[str, str] | None = None,
) -> PipelineError:
    """The error for the user. `text` is the statement; `topics` returns the existing ones, and is called if one is
    missing; `columns` are those of the statement's tables, and `notes` name their origin."""
    if _RIGHT.search(str(error)):
        return _missing_right(error)
    if isinstance(error, PipelineError):
        return error
    condition, parameters = _condition_of(error)
    if condition == _MISSING_TABLE:
        return _missing_table(parameters.get("relationName", ""), topics)
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "UNRESOLVED_MAP_KEY")):
        missing = _missing_column(parameters, columns or {}, _position_of(error))
        guessed = "; ".join(f"{table} is {note}" for table, note in (notes or {}).items() if note.startswith(_GUESSED))
        return MissingError(missing.message, f"{missing.hint}; {guessed}") if guessed else missing
    if "HiveMetaStoreClient" in _message_of(error):
        return SqlError("Hive's metastore cannot be opened", _METASTORE_HINT)
    said = _said_by_worker(error)
    if said:
        return SqlError(said, _BAD_ROWS_HINT if _PLACE.match(said) else "")
    return SqlError(_plain(_message_of(error)) + _position_of(error), _hint_of(condition, text))


def missing_table(error: BaseException) -> str | None:
    """The name that Spark did not find, if that is what is wrong and the name has one part."""
    condition, parameters = _condition_of(error)
    parts = _parts_of(parameters.get("relationName", ""))
    return parts[0] if condition == _MISSING_TABLE and len(parts) == 1 else None


@contextmanager
def silenced() -> Iterator[None]:
    """Drops PySpark's own log of errors while this is open, in this thread: our own code reports errors."""
    for name in PYSPARK_LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_drop_if_silenced)  # the same filter is added once
    token = _is_silenced.set(True)
    try:
        yield
    finally:
        _is_silenced.reset(token)


def _drop_if_silenced(_: logging.LogRecord) -> bool:
    return not _is_silenced.get()


def _missing_table(relation: str, topics: Callable[[], Iterable[str]]) -> MissingError:
    parts = _parts_of(relation)
    name = ".".join(parts)
    known = list(topics())
    topic = name.removesuffix("$latest")
    if len(parts) > 1 and topic in known:
        return MissingError(f"{name} is a topic, and one name: write it in backticks", f"FROM `{name}`")
    near = _near(topic, known)
    hint = f"there is {_listed(near)}" if near else "SHOW TABLES lists the topics that you may see"
    return MissingError(f"there is no topic, table or view {name}, or you may not see it", hint)


def _missing_column(parameters: Mapping[str, str], columns: Mapping[str, Iterable[str]], position: str) -> MissingError:
    name = ".".join(_parts_of(parameters.get("objectName", parameters.get("fieldName", "?"))))
    message = f"there is no column {name}{position}"
    last = name.rpartition(".")[2]
    owners = {table: _near(last, list(names)) for table, names in columns.items()}
    found = [f"{column} of {table}" for table, near in owners.items() for column in near]
    if found:
        return MissingError(message, f"there is {_listed(found)}")
    proposed = [".".join(_parts_of(part)) for part in parameters.get("proposal", "").split(", ") if part]
    if proposed:
        return MissingError(message, f"there is {_listed(proposed[:_MOST_NEAR])}")
    return MissingError(message, f"DESCRIBE {next(iter(columns), 'topic')} lists the columns")


def _missing_right(error: BaseException) -> MissingError:
    found = _RIGHT.search(str(error))
    resource = found[1].lower() if found else "topic"
    said = _said_by_worker(error) or (error.message if isinstance(error, PipelineError) else _plain(_message_of(error)))
    right = {"topic": "Read and Describe on the topic", "group": "Read on the group"}.get(
        resource, f"on the {resource}"
    )
    return MissingError(f"a right is missing: {right} ({said})", "an administrator gives it: penstock acls add")


def _condition_of(error: BaseException) -> tuple[str, dict[str, str]]:
    """Spark's name for what is wrong, and its parameters; nothing of other errors."""
    read: Any = getattr(error, "getCondition", None)
    if read is None:
        return "", {}
    return str(read() or ""), dict(error.getMessageParameters() or {})  # type: ignore[attr-defined]


def _message_of(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)  # of py4j: its own text has the whole stack
    if java is not None:
        return str(java.toString())
    return str(error) or type(error).__name__


def _said_by_worker(error: BaseException) -> str:
    """The message of the exception that ended a Python worker."""
    text = str(error)
    start = text.rfind("Traceback (most recent call last)")
    if start < 0:
        return ""
    raised = list(_RAISED.finditer(text, start))
    return raised[-1][2].strip() if raised else ""


def _plain(message: str) -> str:
    text = _DECORATION.sub("", message).strip()
    text = re.sub(r"^(?:[a-z]\w*\.)+\w+(?:Exception|Error): ", "", text)
    lines = [line.strip() for line in text.split("\n\tat ")[0].splitlines() if line.strip()]
    # Analysis errors go on with the plan that failed.
    kept = [line for line in lines if not line.startswith(("'", "+-", ":-", ":  ", "\tat "))]
    return re.sub(r"\s*\(line \d+, pos \d+\)|;? line \d+ pos \d+;?", "", " ".join(kept)).strip() or message


def _position_of(error: BaseException) -> str:
    found = _POSITION.search(str(error))
    if found:
        return f" (line {found[1]}, column {int(found[2]) + 1})"
    return ""


def _hint_of(condition: str, text: str) -> str:
    if condition in ("PARSE_SYNTAX_ERROR", "INVALID_IDENTIFIER") and re.search(r"[\w.-]+\$latest", text):
        return "a name with $, - or . is written in backticks, such as `orders$latest`"
    if condition == "INVALID_IDENTIFIER":
        return "a name with $, - or . is written in backticks"
    return ""


def _parts_of(name: str) -> list[str]:
    parts = [part.replace("``", "`") for part in _QUOTED.findall(name)]
    return parts or ([name] if name else [])


def _near(name: str, known: list[str]) -> list[str]:
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in get_close_matches(name.lower(), by_lower, _MOST_NEAR, 0.6)]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
