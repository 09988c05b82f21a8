"""Foreign text on a terminal: writes out the characters that a terminal obeys, and those that reverse its letters.

A name of a column or an excerpt of a record may hold anything. Pure.
"""

from __future__ import annotations

import re

# The controls of ASCII and of Latin-1 (a terminal takes \x9b for ESC [), what Unicode breaks lines at, and its marks
# and overrides of direction.
_DIRECTION = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_BREAKING = re.compile(rf"[\x00-\x1f\x7f-\x9f\u2028\u2029{_DIRECTION}]")
_OBEYED = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_DIRECTION}]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def one_line(text: str) -> str:
    """Without characters that a terminal obeys or that would break the line."""
    return _BREAKING.sub(_written_out, text)


def harmless(text: str) -> str:
    """Without characters that a terminal obeys. Its lines and tabs stay."""
    return _OBEYED.sub(_written_out, text)


def harmless_json(document: str) -> str:
    """The same document. JSON has such characters only in strings."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
