"""The words of a text of SQL as Spark divides it: quotes and comments are passed over as a whole. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class TokenKind(Enum):
    WORD = "a keyword, a bare name or a number"
    NAME = "a name in backquotes"
    TEXT = "a text in quotes"
    SIGN = "anything else, one character"


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """As a keyword; empty for what cannot be one."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def value(self) -> str:
        """Without quotes."""
        if self.kind is TokenKind.NAME:
            is_closed = self.text.count("`") % 2 == 0  # else the text of SQL ends in it
            return self.text[1 : -1 if is_closed else None].replace("``", "`")
        if self.kind is TokenKind.TEXT:
            return self.text.lstrip("rR")[1:].removesuffix(self.text[-1])
        return self.text


# A text or a comment that is not closed goes on to the end. A raw text (r'...') has no escapes.
_TOKEN = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<comment>/\*)
    | (?P<text>[rR]'[^']*(?:'|\Z) | [rR]"[^"]*(?:"|\Z) | '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z))
    | (?P<name>`(?:[^`]|``)*(?:`|\Z))
    | (?P<word>\w+)
    | (?P<space>\s+)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {"text": TokenKind.TEXT, "name": TokenKind.NAME, "word": TokenKind.WORD, "sign": TokenKind.SIGN}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def tokens_of(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "any character is a sign"
        at = match.end()
        if match.lastgroup == "comment":
            at = _end_of_comment(text, at)
        elif (kind := _KINDS.get(match.lastgroup or "")) is not None:
            tokens.append(Token(kind, match[0], match.start()))
    return tokens


def _end_of_comment(text: str, at: int) -> int:
    """Comments nest."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)
