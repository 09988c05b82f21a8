"""The texts of failures, for commands and servers alike: the same beginning, and the same words for the same
mistake.
"""

from __future__ import annotations

import os
import re
import sys

from penstock.core.words.visible_text import harmless

MAX_PORT = 65_535
# asyncio and `socket` repeat the address, in Python's form, around the reason.
_BINDING = re.compile(
    r"error while attempting to bind on address \([^)]*\): | \(while attempting to bind on address .*\)$"
)
PORTS_END = f"ports end at {MAX_PORT}"


def tell_error(message: str, hint: str = "") -> None:
    """Writes to standard error what is wrong, and on the next line what to do."""
    sys.stderr.write(f"Error: {harmless(message)}\n")
    if hint:
        sys.stderr.write(f"{harmless(hint)}\n")


def describe_os_error(error: OSError) -> str:
    """The error without its number, which helps no user. Names a file that is where a directory was wanted."""
    if not error.strerror:
        return str(error)
    if not isinstance(error.filename, str | bytes):  # there is none, or it is the number of a descriptor
        return _BINDING.sub("", error.strerror)
    path = os.fsdecode(error.filename)
    if isinstance(error, FileExistsError | NotADirectoryError):
        return describe_file(path) or f"{path}: {_small(error.strerror)}"
    return f"{path}: {_small(error.strerror)}"


def describe_file(path: str) -> str:
    """A sentence if the path, or what should be a directory above it, is a file; empty where none is."""
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return "" if os.path.isdir(above) else f"{above} is a file, not a directory"


def _small(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"
