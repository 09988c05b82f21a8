"""What a text of SQL asks for: a script in its statements, and of each the kind and the pieces. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Query:
    """A question: SELECT, WITH, VALUES, FROM, TABLE, and whatever else Spark answers with rows."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    text: str  # of the question alone
    is_extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe:
    name: str


@dataclass(frozen=True, slots=True)
class ShowTables:
    pattern: str = ""  # as LIKE takes it: * for any text, | between patterns


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


Statement: TypeAlias = Query | Explain | Describe | ShowTables | ShowViews | CreateView | DropView | Insert


def split_statements(text: str) -> list[str]:
    """The statements of a script, without comments around them and without `;`. Empty ones are left out."""
    raise NotImplementedError


def is_complete(text: str) -> bool:
    """Whether a shell may run what was typed: it ends in `;` outside of quotes and comments."""
    raise NotImplementedError


def parse_statement(text: str) -> Statement:
    """SqlError for a statement that begins as one of ours and does not go on so. What is none of ours is a Query."""
    raise NotImplementedError
