"""Completion of keywords, topics and columns. The names are looked up on a thread, and typing never waits for them."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from penstock.pipelines.sql_identifiers import quote

KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "INNER JOIN",
    "FULL JOIN", "ON", "USING", "AS", "AND", "OR", "NOT", "IN", "IS NULL", "IS NOT NULL", "BETWEEN", "LIKE", "CASE",
    "WHEN", "THEN", "ELSE", "END", "DISTINCT", "UNION ALL", "WITH", "OVER", "PARTITION BY", "INTERVAL", "CAST",
    "TIMESTAMP", "DATE", "DESC", "ASC", "LATERAL VIEW", "EXPLODE", "COUNT", "SUM", "AVG", "MIN", "MAX", "WINDOW",
    "CURRENT_TIMESTAMP", "EXPLAIN", "DESCRIBE", "SHOW TABLES", "SHOW VIEWS", "CREATE VIEW", "CREATE OR REPLACE VIEW",
    "DROP VIEW", "INSERT INTO", "VALUES", "SET", "help",
)  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[\w$]+$")
_LATEST = "$latest"
# After these a table is named.
_BEFORE_TABLE = re.compile(r"\b(?:from|join|describe|desc|into|table)\s+(?:`[^`]*|[\w.$-]*)$", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:from|join|into)\s+(?:`([^`]+)`|([\w$]+))", re.IGNORECASE)


def candidates(text: str, before: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> list[str]:
    """What may stand at the cursor: `text` is the whole statement, `before` what is in front of the cursor."""
    typed = _typed(before).lstrip("`").lower()
    if _BEFORE_TABLE.search(before):
        offered = [*names, *(name + _LATEST for name in names)] if typed else list(names)
    else:
        found = [column for table in tables_in(text) for column in columns.get(table.removesuffix(_LATEST), ())]
        offered = [*dict.fromkeys(found), *(KEYWORDS if typed else ()), *(names if typed else ())]
    return [quoted(name) for name in offered if name.lower().startswith(typed)]


def tables_in(text: str) -> list[str]:
    return list(dict.fromkeys(plain or bare for plain, bare in _TABLE.findall(text)))


def quoted(name: str) -> str:
    if name in KEYWORDS or _PLAIN.fullmatch(name):
        return name
    return quote(name)


def _typed(before: str) -> str:
    if before.count("`") % 2:  # inside of a name in backticks
        return before[before.rindex("`") :]
    found = _WORD.search(before)
    return found[0] if found else ""


class Names:
    """Names of tables and their columns as far as they are known. A thread asks for those that are missing.

    At most `_MOST_TABLES` tables are remembered, more than anybody names in one sitting.
    """

    _MOST_TABLES = 1000

    def __init__(self, names: Callable[[], Iterable[str]], columns: Callable[[str], Iterable[str]]) -> None:
        self._ask_names, self._ask_columns = names, columns
        self._names: list[str] = []
        self._columns: dict[str, list[str]] = {}
        self._asked: set[str] = set()
        self._wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._look_up, name="penstock-sql-names", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.refresh()

    def refresh(self) -> None:
        """Topics may have come and gone, and columns with them."""
        self._asked.clear()
        self._wanted.put(None)

    def known(self, tables: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
        for table in {table.removesuffix(_LATEST) for table in tables} - self._asked:
            if len(self._asked) < self._MOST_TABLES and table in self._names:
                self._asked.add(table)
                self._wanted.put(table)
        return self._names, self._columns

    def _look_up(self) -> None:
        while True:
            table = self._wanted.get()
            try:
                if table is None:
                    self._names = list(self._ask_names())
                else:
                    self._columns[table] = list(self._ask_columns(table))
            except Exception:  # noqa: BLE001, S112  # no completion, then; the question itself will say what is wrong
                continue


class SqlCompleter(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        names, columns = self._names.known(tables_in(document.text))
        start = -len(_typed(before))
        for candidate in candidates(document.text, before, names, columns):
            yield Completion(candidate, start_position=start)
