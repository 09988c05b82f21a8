"""What is certain about a text of SQL without Spark's grammar: a quote, a comment or a parenthesis that stays open, and
names that can be nothing but tables. In doubt these checks pass: Spark is the judge of its SQL. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.tokens import Token, TokenKind, tokens_of

# Spark reads these in ways that `tokens` does not know: variables that are put into the text, texts between $$, hints,
# comments that go on behind a backslash, and lines that end in a carriage return alone.
_IN_DOUBT = re.compile(r"\$\{|\$\w*\$|/\*\+|\\\n|\r(?!\n)")
_CLOSED = re.compile(r"""[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" """, re.VERBOSE | re.DOTALL)
_QUOTES = frozenset("'\"`")
_OPENS_COMMENT, _CLOSES_COMMENT = "/*", "*/"
# What stands before the FROM of a question is an expression or its alias, and none of these ends one: behind them
# `from` is a column. Spark takes most of its keywords as names.
_NO_END = frozenset(
    {
        "SELECT", "DISTINCT", "ALL", "NOT", "AND", "OR", "XOR", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP",
        "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "DIV", "MOD", "AS", "BY", "ON", "WHERE", "HAVING", "QUALIFY",
        "INTERVAL", "DATE", "TIMESTAMP", "ESCAPE", "EXISTS", "COLLATE", "DELETE", "SET", "UPDATE", "USING", "LIMIT",
        "OFFSET",
    }
)  # fmt: skip
# Behind FROM and JOIN these begin something else, or `from` was a name itself.
_NO_TABLE = _NO_END | frozenset(
    {
        "FROM", "JOIN", "LATERAL", "TABLE", "VALUES", "STREAM", "UNNEST", "MAP", "REDUCE", "TRANSFORM", "INNER",
        "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "OUTER", "GROUP", "ORDER", "SORT", "CLUSTER",
        "DISTRIBUTE", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "MINUS", "NULLS", "ASC", "DESC", "END", "INSERT",
        "WITH", "FOR", "TABLESAMPLE", "PIVOT", "UNPIVOT",
    }
)  # fmt: skip
_ENDS = frozenset(")]}*")


def refuse_open(text: str) -> None:
    """SqlError where something that was opened is not closed."""
    if _IN_DOUBT.search(text):
        return
    tokens = tokens_of(text)
    for token in tokens:
        if _is_open(token):
            raise SqlError(f"the quote {token.text[0]} {_place(text, token.start)} is not closed")
    _refuse_open_comment(text, tokens)
    opened: list[Token] = []
    for token in tokens:
        if token.text == "(":
            opened.append(token)
        elif token.text == ")":
            if not opened:
                raise SqlError(f"there is no ( for the ) {_place(text, token.start)}")
            opened.pop()
    if opened:
        raise SqlError(f"the ( {_place(text, opened[-1].start)} is not closed")


def tables_of(text: str) -> list[str]:
    """Names behind FROM and JOIN that can be nothing but tables or views, in one part and in the order of the text."""
    if _IN_DOUBT.search(text):
        return []
    tokens = tokens_of(text)
    given = _names_given(tokens)
    found = dict.fromkeys(name for name in _behind_from(tokens) if name.lower() not in given)
    return list(found)


def _behind_from(tokens: Sequence[Token]) -> Iterator[str]:
    begun = [True]  # for each open parenthesis, whether a question is in it
    has_from = [False]
    for number, token in enumerate(tokens):
        if token.text == "(":
            begun.append(_word(tokens, number + 1) in ("SELECT", "WITH", "FROM"))
            has_from.append(False)
        elif token.text == ")" and len(begun) > 1:
            begun.pop()
            has_from.pop()
        elif begun[-1] and (_is_from(tokens, number) or (has_from[-1] and _is_join(tokens, number))):
            has_from[-1] = True
            if _is_whole_name(tokens, number + 1):
                yield tokens[number + 1].value


def _is_from(tokens: Sequence[Token], number: int) -> bool:
    if tokens[number].word != "FROM":
        return False
    if number == 0:
        return True
    before = tokens[number - 1]
    if before.text == "*":  # all columns, or a product
        return number > 1 and (tokens[number - 2].text in (",", ".") or tokens[number - 2].word in ("SELECT", "ALL"))
    return before.text in _ENDS if before.kind is TokenKind.SIGN else before.word not in _NO_END


def _is_join(tokens: Sequence[Token], number: int) -> bool:
    """Behind FROM, JOIN, AS or a comma `join` is a name."""
    before = tokens[number - 1]
    is_end = before.text == ")" if before.kind is TokenKind.SIGN else before.word not in ("FROM", "JOIN", "AS")
    return tokens[number].word == "JOIN" and is_end


def _is_whole_name(tokens: Sequence[Token], number: int) -> bool:
    """Whether a name of one part is there. `a.b`, `range(3)` and `a-b` are something else."""
    if number >= len(tokens):
        return False
    token = tokens[number]
    if token.kind is TokenKind.WORD:
        is_name = token.word not in _NO_TABLE and not token.text[0].isdigit()
    else:
        is_name = token.kind is TokenKind.NAME
    follows = tokens[number + 1] if number + 1 < len(tokens) else None
    return is_name and (follows is None or follows.kind is not TokenKind.SIGN or follows.text in "),|")


def _names_given(tokens: Sequence[Token]) -> frozenset[str]:
    """Names that the text itself may give to questions, in small letters: `name AS (` and `name (columns) AS (`."""
    return frozenset(
        token.value.lower()
        for number, token in enumerate(tokens)
        if token.kind is not TokenKind.SIGN and (_text(tokens, number + 1) == "(" or _is_given(tokens, number + 1))
    )


def _is_given(tokens: Sequence[Token], number: int) -> bool:
    word = _word(tokens, number)
    return word == "MAX" or (word == "AS" and _text(tokens, number + 1) == "(")


def _text(tokens: Sequence[Token], number: int) -> str:
    return tokens[number].text if number < len(tokens) else ""


def _word(tokens: Sequence[Token], number: int) -> str:
    return tokens[number].word if number < len(tokens) else ""


def _is_open(token: Token) -> bool:
    if token.kind is TokenKind.TEXT:
        return _CLOSED.fullmatch(token.text) is None
    if token.kind is TokenKind.NAME:
        return token.text.count("`") % 2 == 1
    return token.text in _QUOTES


def _refuse_open_comment(text: str, tokens: Sequence[Token]) -> None:
    """Only the last can be open, and nested ones are in doubt."""
    gaps = zip([0, *(token.end for token in tokens)], [*(token.start for token in tokens), len(text)], strict=True)
    for start, end in gaps:
        gap = re.sub(r"--[^\n]*", lambda found: " " * len(found[0]), text[start:end])
        at = gap.find(_OPENS_COMMENT)
        if at >= 0 and _CLOSES_COMMENT not in gap[at:]:
            raise SqlError(f"the comment {_place(text, start + at)} is not closed")


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"in line {line}, column {at - text.rfind(chr(10), 0, at)}"
