"""Parses a text of SQL: a script into its statements, and each statement into its kind and pieces. Pure.

Only statements that Spark would not understand as they are meant here are taken apart: those about topics as tables
and about views that are kept. A question goes to Spark as it was written, so nothing here knows its grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.tokens import Token, TokenKind, tokens_of
from penstock.pipelines.sql_identifiers import quote


@dataclass(frozen=True, slots=True)
class Query:
    """A question: SELECT, WITH, VALUES, FROM or TABLE."""

    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """Anything else that Spark understands, such as SET or USE: for the session as it is, and once."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    text: str  # the question alone
    is_extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe:
    name: str


@dataclass(frozen=True, slots=True)
class ShowTables:
    pattern: str = ""  # as Spark takes it: * for any text, | between patterns


@dataclass(frozen=True, slots=True)
class ShowViews:
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    query: str
    is_replacing: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Insert:
    topic: str
    query: str
    columns: tuple[str, ...] = ()
    text: str = field(default="", compare=False)  # the whole statement


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """Of a table of Spark's, or so the user thinks."""

    verb: str  # such as DROP TABLE
    name: str


Statement: TypeAlias = (
    Query | Command | ChangeTable | Explain | Describe | ShowTables | ShowViews | CreateView | DropView | Insert
)

_QUESTIONS = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE"})
_SHOWN: dict[str, type[ShowTables | ShowViews]] = {
    "TABLES": ShowTables,
    "TOPICS": ShowTables,
    "VIEWS": ShowViews,
}
_EXPLAIN_MODES = frozenset({"EXTENDED", "FORMATTED", "CODEGEN", "COST"})
# What Spark describes other than tables.
_DESCRIBED_BY_SPARK = frozenset({"FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "QUERY", "CATALOG", "PROCEDURE"}) | (
    _QUESTIONS - {"TABLE"}
)


def split_statements(text: str) -> list[str]:
    """The statements of a script, without the `;` and without comments around them. Empty ones are left out."""
    statements: list[str] = []
    inside: list[Token] = []
    for token in tokens_of(text):
        if token.text == ";":
            statements += _text_of(text, inside)
            inside = []
        else:
            inside.append(token)
    return statements + _text_of(text, inside)


def is_complete(text: str) -> bool:
    """Whether a shell may run what was typed: the text ends in a `;` that stands outside of quotes and comments."""
    tokens = tokens_of(text)
    return bool(tokens) and tokens[-1].text == ";" and not _has_open_end(text, tokens[-1])


def parse_statement(text: str) -> Statement:
    """One statement. SqlError for a statement that begins as one of ours and does not go on so."""
    tokens = tokens_of(text)
    if tokens and tokens[-1].text == ";":
        tokens = tokens[:-1]
    if not tokens:
        raise SqlError("there is no statement", "Write one, such as SELECT * FROM orders LIMIT 10.")
    text = text[tokens[0].start : tokens[-1].end]
    return _Reading(text, tokens_of(text)).statement()


def _text_of(text: str, tokens: Sequence[Token]) -> list[str]:
    return [text[tokens[0].start : tokens[-1].end]] if tokens else []


def _has_open_end(text: str, last: Token) -> bool:
    """Whether a comment that was begun behind the last token goes on."""
    rest = text[last.end :]
    return "/*" in rest and rest.count("/*") > rest.count("*/")


@dataclass(slots=True)
class _Reading:
    """A statement, read from its beginning."""

    text: str
    tokens: Sequence[Token]
    at: int = 0

    def statement(self) -> Statement:
        first = self.tokens[0].word
        if first == "WITH":
            return self._with()
        if first in _QUESTIONS or self.tokens[0].text == "(":
            return Query(self.text)
        read = _READINGS.get(first)
        return Command(self.text) if read is None else read(self)

    def _with(self) -> Statement:
        """Spark lets an INSERT follow the names of a WITH; those belong to its question."""
        depth = 0
        for number, token in enumerate(self.tokens):
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            follows = self.tokens[number + 1].word if number + 1 < len(self.tokens) else ""
            if depth == 0 and token.word == "INSERT" and follows in ("INTO", "OVERWRITE"):
                self.at = number
                return self.insert(self.text[: token.start])
        return Query(self.text)

    def insert(self, names: str = "") -> Statement:
        self.at += 1
        if self._take("OVERWRITE"):
            raise SqlError("a topic is written to at its end: there is no INSERT OVERWRITE", "Use INSERT INTO.")
        self._need("INTO", "INSERT INTO topic SELECT ...")
        self._take("TABLE")
        topic = self._name("INSERT INTO", "a topic")
        columns = self._columns()
        self._take("BY", "NAME")
        query = names + self._rest(f"INSERT INTO {topic}", "a question such as SELECT ...")
        return Insert(topic, query, columns, self.text)

    def create(self) -> Statement:
        self.at += 1
        is_replacing = self._take("OR", "REPLACE")
        if not self._take("VIEW"):
            return Command(self.text)  # a temporary view, a table, a function: of this session
        if_not_exists = self._take("IF", "NOT", "EXISTS")
        name = self._view_name("CREATE VIEW")
        columns = self._columns()
        self._need("AS", f"CREATE VIEW {name} AS SELECT ...")
        query = self._rest(f"CREATE VIEW {name} AS", "a question such as SELECT ...")
        if columns:
            query = f"SELECT * FROM ({query}) AS {quote(name)}({', '.join(map(quote, columns))})"  # noqa: S608
        return CreateView(name, query, is_replacing, if_not_exists)

    def drop(self) -> Statement:
        self.at += 1
        if not self._take("VIEW"):
            return self._change("DROP", "TABLE")
        if_exists = self._take("IF", "EXISTS")
        name = self._view_name("DROP VIEW")
        self._end(f"DROP VIEW {name}")
        return DropView(name, if_exists)

    def change(self) -> Statement:
        """DELETE FROM t, UPDATE t, TRUNCATE TABLE t, ALTER TABLE t."""
        verb = self._word()
        self.at += 1
        return self._change(verb, _CHANGES[verb])

    def _change(self, verb: str, follows: str) -> Statement:
        if follows and not self._take(follows):
            return Command(self.text)
        self._take("IF", "EXISTS")
        if self.at >= len(self.tokens):
            return Command(self.text)
        return ChangeTable(f"{verb} {follows}".rstrip(), self._name(verb, "a table"))

    def describe(self) -> Statement:
        self.at += 1
        if self._word() in _DESCRIBED_BY_SPARK:
            return Command(self.text)
        _ = self._take("TABLE"), self._take("EXTENDED"), self._take("FORMATTED")
        name = self._name("DESCRIBE", "a topic or a view")
        self._end(f"DESCRIBE {name}")
        return Describe(name)

    def show(self) -> Statement:
        self.at += 1
        kind = _SHOWN.get(self._word())
        if kind is None:
            return Command(self.text)
        self.at += 1
        if self._word() in ("IN", "FROM"):
            return Command(self.text)
        self._take("LIKE")
        if self.at == len(self.tokens):
            return kind()
        pattern = self.tokens[self.at].value
        self.at += 1
        self._end("SHOW " + self.tokens[1].word)
        return kind(pattern)

    def explain(self) -> Statement:
        self.at += 1
        is_extended = self._word() in _EXPLAIN_MODES
        self.at += is_extended
        return Explain(self._rest("EXPLAIN", "a question such as SELECT ..."), is_extended)

    # ---- pieces

    def _word(self) -> str:
        return self.tokens[self.at].word if self.at < len(self.tokens) else ""

    def _take(self, *words: str) -> bool:
        found = tuple(token.word for token in self.tokens[self.at : self.at + len(words)]) == words
        self.at += len(words) * found
        return found

    def _need(self, word: str, shape: str) -> None:
        if not self._take(word):
            raise SqlError(f"{self._found()} where {word} is expected", f"It goes: {shape}")

    def _found(self) -> str:
        if self.at >= len(self.tokens):
            return "the statement ends"
        token = self.tokens[self.at]
        return f"{token.text[:40]!r} stands in line {self.text.count(chr(10), 0, token.start) + 1}"

    def _name(self, after: str, wanted: str) -> str:
        """A name in one or several parts. Topics may have `-` in theirs, which need no quotes here."""
        parts, end = [], None
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            is_part = token.kind is not TokenKind.SIGN or token.text in ".-$"
            if not is_part or (end is not None and token.start != end):
                break
            parts.append(token.value)
            end = token.end
            self.at += 1
        if not parts:
            raise SqlError(f"{self._found()} where {wanted} is expected", f"{after} is followed by the name.")
        return "".join(parts)

    def _view_name(self, after: str) -> str:
        name = self._name(after, "the view's name")
        if not re.fullmatch(r"\w+", name):
            raise SqlError(f"{name!r} cannot be a view's name", "Letters, digits and _ may be in it.")
        return name

    def _columns(self) -> tuple[str, ...]:
        """(a, b, c) where that follows; a question in parentheses is none."""
        tokens, at = self.tokens, self.at
        if at >= len(tokens) or tokens[at].text != "(":
            return ()
        names = []
        while at + 2 < len(tokens) and tokens[at].text in "(,":
            if tokens[at + 1].kind is TokenKind.SIGN or tokens[at + 2].text not in (",", ")"):
                return ()
            names.append(tokens[at + 1].value)
            at += 2
        self.at = at + 1
        return tuple(names)

    def _rest(self, after: str, wanted: str) -> str:
        if self.at >= len(self.tokens):
            raise SqlError(f"{after} ends where {wanted} is expected")
        rest = self.text[self.tokens[self.at].start :]
        if self._word() not in _QUESTIONS and self.tokens[self.at].text != "(":
            raise SqlError(f"{self._found()} where {wanted} is expected", f"{after} is followed by it.")
        self.at = len(self.tokens)
        return rest

    def _end(self, after: str) -> None:
        if self.at < len(self.tokens):
            raise SqlError(f"{self._found()} where {after} should end")


_CHANGES = {"DELETE": "FROM", "UPDATE": "", "TRUNCATE": "TABLE", "ALTER": "TABLE"}
_READINGS: dict[str, Callable[[_Reading], Statement]] = {
    "INSERT": _Reading.insert,
    "CREATE": _Reading.create,
    "DROP": _Reading.drop,
    **dict.fromkeys(_CHANGES, _Reading.change),
    "DESCRIBE": _Reading.describe,
    "DESC": _Reading.describe,
    "SHOW": _Reading.show,
    "EXPLAIN": _Reading.explain,
}
