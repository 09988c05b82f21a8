"""Java's .properties syntax, as `java.util.Properties.load` reads it, and settings that a program gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.core.config.types import ConfigError
from penstock.core.limits import MAX_PROPERTIES_FILE_BYTES

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
# The key ends at the first =, : or blank that no backslash precedes.
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
# Characters that would end a key, begin a comment, or be skipped in front of a value.
_ESCAPED_IN_KEYS = re.compile(r"[\\=:#! \t\n\r\f]")
_ESCAPED_IN_VALUES = re.compile(r"[\\\t\n\r\f]|^ ")
_LETTERS = {character: letter for letter, character in _ESCAPES.items()}

# A program may give numbers and booleans as such.
ConfigMapping = Mapping[str, str | int | float | bool]


def as_properties(config: ConfigMapping | None) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (config or {}).items()}


def format_properties(properties: Mapping[str, str]) -> str:
    """The text from which `parse_properties` reads the same settings."""
    return "".join(
        f"{_ESCAPED_IN_KEYS.sub(_escape, key)}={_ESCAPED_IN_VALUES.sub(_escape, value)}\n"
        for key, value in properties.items()
    )


def _escape(match: re.Match[str]) -> str:
    return f"\\{_LETTERS.get(match[0], match[0])}"


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a properties file. Raises ConfigError when it cannot be read or understood."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MAX_PROPERTIES_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_PROPERTIES_FILE_BYTES} bytes: not a properties file")
    try:
        return parse_properties(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_properties(text: str) -> dict[str, str]:
    """Later lines win over earlier ones, as in Java. Raises ValueError on a broken escape, naming the line."""
    settings: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None, "the pattern matches the empty text"
        value_start = _SEPARATOR.match(line, match.end())
        assert value_start is not None, "the pattern matches the empty text"
        settings[_unescape(match[0], number)] = _unescape(line[value_start.end() :], number)
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones; a line that ends with an odd number of backslashes goes on in the next."""
    parts: list[str] = []
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = natural.lstrip(_BLANK)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        yield first, "".join(parts) + line
        parts = []
    if parts:
        yield first, "".join(parts)


def _unescape(text: str, line_number: int) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            raise ValueError(f"line {line_number}: \\u must be followed by four hexadecimal digits")
        if escape[0] == "u":
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(replace, text)
