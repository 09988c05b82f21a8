"""The places of the files of a secure single broker, and the mark that keeps its data secure.

Rules:
- A secure start leaves a mark in the data: a file that names the directory with the certificates and the users. Data
  with the mark is opened to every client only by a start with --insecure, wherever the data was moved to and whatever
  was lost beside it.
- The directory lies beside the data. Where data was moved alone, the mark still names the directory.

Quick to import: every start of a broker needs it.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping

_PLAIN = "PLAINTEXT"
USERS_FILE = "users.json"
BROKER_FILE = "broker.properties"
# No name with a dot in front: `mv data/* elsewhere` would leave the mark behind.
MARK_FILE = "penstock-secure"
_MOST_BYTES = 10_000  # more than the longest path


def first_data_directory(properties: Mapping[str, str]) -> str:
    return (properties.get("log.dirs") or properties["log.dir"]).split(",")[0].strip()


def security_directory(properties: Mapping[str, str]) -> str:
    """Beside the first data directory, or at the place that its mark names."""
    data = os.path.normpath(first_data_directory(properties))
    beside = f"{data}.security"
    if _is_secure(beside):
        return beside
    marked = _read_mark(data)
    return marked if marked and _is_secure(marked) else beside


def is_marked(data: str) -> bool:
    return os.path.exists(os.path.join(data, MARK_FILE))


def stays_secure(properties: Mapping[str, str]) -> bool:
    """True if a secure start made the data, and the settings have no security of their own: with these settings alone
    every client could use the broker.
    """
    was_secure = is_marked(first_data_directory(properties)) or _is_secure(security_directory(properties))
    return was_secure and _is_plain(properties)


def _is_secure(directory: str) -> bool:
    return any(os.path.exists(os.path.join(directory, name)) for name in (USERS_FILE, BROKER_FILE))


def _read_mark(data: str) -> str:
    """Empty where there is none, or it cannot be read."""
    try:
        with open(os.path.join(data, MARK_FILE), "rb") as file:
            return os.fsdecode(file.read(_MOST_BYTES)).rstrip("\n")
    except OSError:
        return ""


def _is_plain(properties: Mapping[str, str]) -> bool:
    if properties.get("listener.security.protocol.map"):
        return False
    listeners = properties.get("listeners") or ""
    return all(part.strip().partition("://")[0] == _PLAIN for part in listeners.split(",") if "://" in part)
