"""`CREATE VIEW`: questions kept by name in a file of SQL that people can read and write as well.

A question that uses views is given to Spark with the views in front of it, as names of a WITH. So a view is a part of
the question: its conditions are pushed down, and its topics are of the same snapshot.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.pipelines.errors import SqlError
from penstock.pipelines.quoting import quote
from penstock.pipelines.sql.statements import CreateView, DropView, parse_statement, split_statements
from penstock.pipelines.sql.tokens import Kind, tokens_of

DEFAULT_FILE = Path("~/.config/penstock/views.sql")
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
        self._read()
        name = self.name_of(statement.name)
        if name is not None and statement.if_not_exists:
            return False
        if name is not None and not statement.is_replacing:
            raise SqlError(f"there is a view {name} already", "Use CREATE OR REPLACE VIEW, or DROP VIEW first.")
        queries = {**self.queries, name or statement.name: statement.query}
        check_cycle(name or statement.name, queries)
        self._write(queries)
        return True

    def drop(self, statement: DropView) -> bool:
        """Whether there was such a view."""
        self._read()
        name = self.name_of(statement.name)
        if name is None:
            if statement.if_exists:
                return False
            known = f"There are {', '.join(self.queries)}." if self.queries else "There are none."
            raise SqlError(f"there is no view {statement.name}", known)
        users = [user for user, query in self.queries.items() if user != name and name in used(query, self.queries)]
        if users:
            raise SqlError(f"the view {name} is used by {', '.join(users)}", "Drop or replace those first.")
        self._write({other: query for other, query in self.queries.items() if other != name})
        return True

    def name_of(self, name: str) -> str | None:
        """As the view was called when it was made."""
        return next((known for known in self.queries if known.lower() == name.lower()), None)

    def expand(self, query: str) -> str:
        """The question with the views that it uses in front of it."""
        return expand(query, self.queries)

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
        """As a whole: a reader sees the file before or after. What was skipped is kept beside it, for whoever wrote
        it."""
        text = _HEAD + "".join(f"\nCREATE VIEW {quote(name)} AS\n{query}\n;\n" for name, query in queries.items())
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            if self.wrong:
                self.file.with_suffix(".sql.before").write_bytes(self.file.read_bytes())
            _write_atomically(self.file, text)
        except OSError as error:
            raise SqlError(f"the file of views {self.file} cannot be written: {error}") from error
        self.queries, self.wrong = dict(queries), []


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
    """Views whose names occur in the question. A column may have such a name: then the view is named without need, and
    Spark leaves it out."""
    names = {name.lower(): name for name in views}
    found = (names.get(token.value.lower()) for token in tokens_of(query) if token.kind in (Kind.WORD, Kind.NAME))
    return list(dict.fromkeys(name for name in found if name is not None))


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
