"""How partition values are written as directory names: `status=404/city=a%2Fb`, as Hive and Spark write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

# Stands for null; Hive and Spark write the empty string so as well, and read null back.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# The characters that Hive's own FileUtils escapes.
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def escape(value: str) -> str:
    return _ESCAPED.sub(lambda character: f"%{ord(character.group()):02X}", value)


def unescape(text: str) -> str:
    return unquote(text)


def directory_of(names: Sequence[str], values: Sequence[str | None]) -> str:
    pairs = zip(names, values, strict=True)
    return "/".join(f"{escape(name)}={escape(value) if value else NULL_PARTITION}" for name, value in pairs)


def values_of(directory: str) -> Mapping[str, str | None]:
    """Empty for rows that are not partitioned."""
    values: dict[str, str | None] = {}
    for part in filter(None, directory.split("/")):
        name, _, value = part.partition("=")
        values[unescape(name)] = None if value == NULL_PARTITION else unescape(value)
    return values


def is_hidden(path: str) -> bool:
    """Whether Spark and Hive pass over the name when they read a directory."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))
