"""Small text forms the commands share: pairs, escapes, sizes, spans of time, partition lists."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.cli.errors import UsageError
from penstock.core.words.plurals import plural as plural  # commands have both from here
from penstock.core.words.secrets_seen import UnknownReferenceError, follow_references
from penstock.core.words.sizes import format_size as format_size

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[0abfnrtv\\'\"])")
_ESCAPES = {
    "0": b"\0", "a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v",
    "\\": b"\\", "'": b"'", '"': b'"',
}  # fmt: skip
_SIZE_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)


def parse_pair(text: str, what: str = "setting") -> tuple[str, str]:
    """`key=value`; the value may hold more equals signs or be empty."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageError(f"{text!r} is not a {what}", "Write it as key=value.")
    return key.strip(), value


def parse_setting(text: str, what: str = "setting") -> tuple[str, str]:
    """`key=value`, where the value may name a variable of the environment or a file that holds it, or a part of it."""
    key, value = parse_pair(text, what)
    try:
        return key, follow_references(value)
    except UnknownReferenceError as error:
        raise UsageError(f"{key}: {error}") from None


def parse_settings(texts: Iterable[str] | None, what: str = "setting") -> dict[str, str]:
    return dict(parse_setting(text, what) for text in texts or ())


def unescape(text: str) -> bytes:
    r"""Bytes of `text` with \n, \t, \0, \xNN and \uNNNN replaced; an unknown escape stays as it is."""
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8", "surrogateescape"))
        parts.append(_unescape_one(match.group(1)))
        end = match.end()
    parts.append(text[end:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)


def _unescape_one(code: str) -> bytes:
    if code[0] == "x":
        return bytes([int(code[1:], 16)])
    if code[0] == "u":
        return chr(int(code[1:], 16)).encode("utf-8", "surrogatepass")
    return _ESCAPES[code]


def parse_size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a size", "Write bytes, or 64k, 10m, 1g.")
    return int(match.group(1)) * _SIZE_FACTORS[match.group(2).lower()]


def parse_partitions(text: str) -> list[int]:
    """`0,2,5-7`."""
    partitions: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and (not last.isdigit() or int(last) < int(first))):
            raise UsageError(f"{text!r} is not a list of partitions", "Write it like 0,2,5-7.")
        partitions.extend(range(int(first), int(last if dash else first) + 1))
    return sorted(set(partitions))


def format_duration(seconds: float) -> str:
    whole = round(seconds)
    for size, unit, smaller, rest in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {rest}"
    return f"{whole} s"
