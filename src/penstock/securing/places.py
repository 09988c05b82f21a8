"""Where the files of a secure single broker are, and whether its data is to stay secure.

Quick to import: every start of a broker asks.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping

_PLAIN = "PLAINTEXT"
USERS_FILE = "users.json"


def first_data_directory(properties: Mapping[str, str]) -> str:
    return (properties.get("log.dirs") or properties["log.dir"]).split(",")[0].strip()


def security_directory(properties: Mapping[str, str]) -> str:
    """Beside the first data directory."""
    return f"{os.path.normpath(first_data_directory(properties))}.security"


def stays_secure(properties: Mapping[str, str]) -> bool:
    """The data was made by a secure start, and the settings have no security of their own: without more they would open
    it to everybody.
    """
    return os.path.exists(os.path.join(security_directory(properties), USERS_FILE)) and _is_plain(properties)


def _is_plain(properties: Mapping[str, str]) -> bool:
    if properties.get("listener.security.protocol.map"):
        return False
    listeners = properties.get("listeners") or ""
    return all(part.strip().partition("://")[0] == _PLAIN for part in listeners.split(",") if "://" in part)
