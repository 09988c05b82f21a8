"""`CREATE VIEW`: questions kept by name in a file of SQL that people can read and write as well.

A question that uses views is given to Spark with the views in front of it, as names of a WITH. So a view is a part of
the question: its conditions are pushed down, and its topics are of the same snapshot.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.statements import CreateView, DropView, parse_statement, split_statements
from penstock.pipelines.sql.tokens import Token, TokenKind, tokens_of
from penstock.pipelines.sql_identifiers import quote

DEFAULT_FILE = Path("~/.config/penstock/views.sql")
# A table's name follows these, and a comma or a parenthesis in their clause.
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "LATERAL"})
# Expressions follow, until the next of the words above.
_BEFORE_EXPRESSIONS = frozenset(
    {
        "SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW",
        "QUALIFY", "UNION", "EXCEPT", "INTERSECT", "MINUS",
    }
)  # fmt: skip
_HEAD = "-- Views of `penstock sql`. May be edited: one CREATE VIEW after the other, each ends with a semicolon.\n"


@dataclass(slots=True)
class Views:
    """The views of one file, in the order in which they were made. A view may use topics and other views. Names are the
    same in any case, as everywhere in Spark."""

    file: Path
    queries: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)  # what the file has that is no view, in words; skipped

    @classmethod
    def load(cls, file: Path = DEFAULT_FILE) -> Views:
        """A file that is not there has no views. SqlError for one that cannot be read."""
        views = cls(file.expanduser())
        views._read()
        return views

    def create(self, statement: CreateView) -> bool:
        """Whether the file was changed: it is not where the view is there and IF NOT EXISTS was said."""
        return self._change(lambda: with_view(statement, self.queries))

    def drop(self, statement: DropView) -> bool:
        """Whether there was such a view."""
        return self._change(lambda: without_view(statement, self.queries))

    def name_of(self, name: str) -> str | None:
        """As the view was called when it was made."""
        return _name_of(name, self.queries)

    def expand(self, query: str) -> str:
        """The question with the views that it uses in front of it."""
        return expand(query, self.queries)

    def _change(self, changed: Callable[[], Mapping[str, str] | None]) -> bool:
        with self._alone():
            queries = changed()
            if queries is not None:
                self._write(queries)
        return queries is not None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Reads the file and lets no other shell change it meanwhile. The directory is locked, because the file is
        replaced by each change."""
        try:
            directory = self.file.resolve().parent
            directory.mkdir(parents=True, exist_ok=True)
            handle = os.open(directory, os.O_RDONLY)
        except OSError as error:
            raise SqlError(f"the file of views {self.file} cannot be written: {error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._read()
            yield
        finally:
            os.close(handle)

    def _read(self) -> None:
        """Another shell may have changed the file."""
        try:
            text = self.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise SqlError(f"the file of views {self.file} cannot be read: {error}") from error
        self.queries, self.wrong = {}, []
        for number, statement in enumerate(split_statements(text), 1):
            try:
                self._take(statement)
            except SqlError as error:
                self.wrong.append(f"{self.file}: statement {number} is skipped: {error.message}")

    def _take(self, text: str) -> None:
        statement = parse_statement(text)
        if not isinstance(statement, CreateView):
            raise SqlError(f"{text.split(maxsplit=1)[0]!r} is no CREATE VIEW")
        if self.name_of(statement.name) is not None and not statement.is_replacing:
            raise SqlError(f"there is a view {statement.name} above")
        queries = {**self.queries, self.name_of(statement.name) or statement.name: statement.query}
        check_cycle(statement.name, queries)
        self.queries = queries

    def _write(self, queries: Mapping[str, str]) -> None:
        """As a whole: a reader sees the file before or after. A file with skipped statements is kept beside it, for
        their author.
        """
        text = _HEAD + "".join(f"\nCREATE VIEW {quote(name)} AS\n{query}\n;\n" for name, query in queries.items())
        try:
            if self.wrong:
                self.file.with_suffix(".sql.before").write_bytes(self.file.read_bytes())
            _write_atomically(self.file.resolve(), text)  # a link stays a link
        except OSError as error:
            raise SqlError(f"the file of views {self.file} cannot be written: {error}") from error
        self.queries, self.wrong = dict(queries), []


def with_view(statement: CreateView, views: Mapping[str, str]) -> dict[str, str] | None:
    """None where the view is there and may stay. Raises SqlError."""
    known = _name_of(statement.name, views)
    if known is not None and statement.if_not_exists:
        return None
    if known is not None and not statement.is_replacing:
        raise SqlError(f"there is a view {known} already", "Use CREATE OR REPLACE VIEW, or DROP VIEW first.")
    name = known or statement.name
    changed = {**views, name: statement.query}
    check_cycle(name, changed)
    return changed


def without_view(statement: DropView, views: Mapping[str, str]) -> dict[str, str] | None:
    """None where there is no such view, and need not be. Raises SqlError."""
    name = _name_of(statement.name, views)
    if name is None:
        if statement.if_exists:
            return None
        known = f"There are {', '.join(views)}." if views else "There are none."
        raise SqlError(f"there is no view {statement.name}", known)
    users = [user for user, query in views.items() if user != name and name in used(query, views)]
    if users:
        raise SqlError(f"the view {name} is used by {', '.join(users)}", "Drop or replace those first.")
    return {other: query for other, query in views.items() if other != name}


def _name_of(name: str, views: Mapping[str, str]) -> str | None:
    return next((known for known in views if known.lower() == name.lower()), None)


def expand(query: str, views: Mapping[str, str]) -> str:
    """`query` with the views that it uses, and those that they use, as names of a WITH."""
    needed = list(_needed(query, views))
    if not needed:
        return query
    names = ",\n".join(f"{quote(name)} AS (\n{views[name]}\n)" for name in needed)
    tokens = tokens_of(query)
    if tokens[0].word != "WITH":
        return f"WITH {names}\n{query}"
    # The question's own names follow; they may use views, and hide them.
    is_recursive = len(tokens) > 1 and tokens[1].word == "RECURSIVE"
    own = query[tokens[1 if is_recursive else 0].end :]
    return f"WITH {'RECURSIVE ' if is_recursive else ''}{names},{own}"


def used(query: str, views: Mapping[str, str]) -> list[str]:
    """Views whose names stand where the question names a table."""
    names = {name.lower(): name for name in views}
    found = (names.get(token.value.lower()) for token in _tables_of(tokens_of(query)))
    return list(dict.fromkeys(name for name in found if name is not None))


def _tables_of(tokens: list[Token]) -> Iterator[Token]:
    """Names where tables can stand, and perhaps a few more: a view too many is one that Spark leaves out. Outside of
    FROM all names are columns and functions."""
    is_list = [False]  # of each parenthesis that is open: whether it is a list of tables
    for number, token in enumerate(tokens):
        before = tokens[number - 1] if number else None
        after = tokens[number + 1].text if number + 1 < len(tokens) else ""
        follows_table = before is not None and before.word == "TABLE"
        word, is_first = token.word, _is_first(tokens, number) and is_list[-1]
        if token.text == "(":
            is_list.append(is_first or follows_table)
        elif token.text == ")":
            is_list[-2:] = is_list[-2:-1] or [False]
        elif word in _BEFORE_TABLES:
            # `a IS DISTINCT FROM b` compares.
            is_list[-1] = before is None or before.word != "DISTINCT"
        elif word in _BEFORE_EXPRESSIONS or (token.text == "|" and after == ">"):
            is_list[-1] = False
        elif token.kind in (TokenKind.WORD, TokenKind.NAME) and after not in (".", "(") and (is_first or follows_table):
            yield token


def _is_first(tokens: list[Token], number: int) -> bool:
    """Whether what stands there begins an item of its list."""
    before = tokens[number - 1] if number else None
    return before is None or before.word in _BEFORE_TABLES or before.text in (",", "(")


def check_cycle(name: str, views: Mapping[str, str]) -> None:
    """SqlError where the view would be a part of itself. A view that has a topic's name means the topic by it."""
    waiting: list[tuple[str, ...]] = [(other,) for other in used(views[name], views) if other != name]
    seen = {name}
    while waiting:
        path = waiting.pop()
        for other in used(views[path[-1]], views):
            if other == name:
                way = " uses ".join((name, *path, name))
                raise SqlError(f"the view {name} would be a part of itself: {way}")
            if other not in seen and other != path[-1]:
                seen.add(other)
                waiting.append((*path, other))


def _needed(query: str, views: Mapping[str, str]) -> Iterator[str]:
    """Each after those that it uses."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in done:
            return
        done.add(name)
        for other in used(views[name], views):
            if other != name:
                yield from visit(other)
        yield name

    for name in used(query, views):
        yield from visit(name)


def _write_atomically(file: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, prefix=".views-", delete=False) as new:
        try:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
            os.replace(new.name, file)
        except BaseException:
            os.unlink(new.name)
            raise
