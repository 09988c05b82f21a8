"""The first users of a new cluster: without them no client could log in to create the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.cluster.decisions.security.users import scram_users
from penstock.cluster.security_image import NO_SECURITY, SecurityImage, Settings, user_key
from penstock.cluster.store.interface import StoreError, StoreErrorKind

# Some thousand users. A wrong file in the setting costs nothing.
_MOST_BYTES = 1_000_000


def read_first_users(path: str) -> SecurityImage:
    """The users in the file that `penstock.first.users.file` names; none where the name is empty. Raises StoreError."""
    if not path:
        return NO_SECURITY
    try:
        with Path(path).open("rb") as file:
            document = json.loads(file.read(_MOST_BYTES + 1))
        return SecurityImage(entity_configs={user_key(name): _settings(value) for name, value in document.items()})
    except OSError as error:
        raise _unreadable(path, error.strerror or "cannot be read") from error
    except (ValueError, AttributeError, TypeError) as error:  # the text may be a secret: the error does not show it
        raise _unreadable(path, "expected JSON, the settings of each user by name") from error


def format_first_users(security: SecurityImage) -> str:
    """The text of such a file, with the users of `security`."""
    users = {user: dict(security.entity_configs[user_key(user)]) for user in scram_users(security)}
    return json.dumps(users, indent=1) + "\n"


def _settings(value: Any) -> Settings:
    if not value or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("no settings")
    return dict(value)


def _unreadable(path: str, reason: str) -> StoreError:
    return StoreError(StoreErrorKind.CORRUPT, path, f"penstock.first.users.file: {reason}")  # a retry is no use
