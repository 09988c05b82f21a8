"""New passwords for users whose file is lost, in the store of a single broker that does not run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from penstock.cluster.decisions.security.users import Upsertion
from penstock.core.clock import SystemClock
from penstock.security.sasl.passwords import SALT_RANDOMNESS, salt_password
from penstock.security.sasl.scram import SHA_256, SHA_512
from penstock.security_setup.setup import ITERATIONS, password_of
from penstock.server.offline_passwords import write_passwords


async def write_logins(data: Path, logins: Mapping[str, str]) -> None:
    """Raises what `write_passwords` raises."""
    users = []
    for user, login in logins.items():
        # For both mechanisms: a password that is lost should open nothing any more.
        for hashing in (SHA_512, SHA_256):
            each = salt_password(hashing, password_of(login), secrets.token_bytes(SALT_RANDOMNESS), ITERATIONS)
            users.append(Upsertion(user, hashing.code, each.iterations, each.salt, each.salted))
    await write_passwords(data, users, SystemClock())
