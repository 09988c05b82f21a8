"""The words of a .proto file: names, numbers, strings, signs. Comments and spaces are left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.schemas.limits import Limits
from penstock.schemas.schema import InvalidSchemaError

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>0[xX][0-9A-Fa-f]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?)
  | (?P<string>"(?:[^"\\\n\0]|\\[^\n\0])*"|'(?:[^'\\\n\0]|\\[^\n\0])*')
  | (?P<sign>[{}\[\]()<>=;:,.\-+/])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:[xX]([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
    b"\\": b"\\", b"'": b"'", b'"': b'"', b"?": b"?",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    position: int


END = "end"


def tokenize(text: str, limits: Limits) -> list[Token]:
    """All tokens, and one more that marks the end."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise InvalidSchemaError(f"Unexpected {text[position]!r} {place(text, position)}")
        if found.lastgroup != "space":
            assert found.lastgroup is not None
            tokens.append(Token(found.lastgroup, found[0], position))
            if len(tokens) > limits.nodes:
                raise InvalidSchemaError(f"The file has more than {limits.nodes} words")
        position = found.end()
    tokens.append(Token(END, "", position))
    return tokens


def place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"at line {line}, column {position - text.rfind(chr(10), 0, position)}"


def unquote(literal: str) -> bytes:
    return _ESCAPE.sub(_unescape, literal[1:-1].encode("utf-8", "surrogatepass"))


def _unescape(found: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, simple = found.groups()
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if short is not None or long is not None:
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise InvalidSchemaError(f"Invalid character \\u{code:x} in a string")
        return chr(code).encode()
    if simple not in _SIMPLE_ESCAPES:
        raise InvalidSchemaError(f"Invalid escape {found[0].decode('utf-8', 'replace')!r} in a string")
    return _SIMPLE_ESCAPES[simple]


def quote(content: bytes) -> str:
    """The string with quotes; bytes that are no text are written by their numbers."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return (
            '"'
            + "".join(_QUOTED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in content)
            + '"'
        )
    return '"' + text.translate(_QUOTED) + '"'


_QUOTED = {value[0]: "\\" + key.decode() for key, value in _SIMPLE_ESCAPES.items() if key != b"?"} | {0: "\\000"}
