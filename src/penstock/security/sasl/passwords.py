"""Salts a password for the requests that administer users, which never carry the password itself."""

from __future__ import annotations

from typing import NamedTuple

from penstock.security.sasl.scram import MIN_ITERATIONS, ScramHash
from penstock.security.sasl.scram_server import make_salt

SALT_RANDOMNESS = 32


class SaltedPassword(NamedTuple):
    hashing: ScramHash
    iterations: int
    salt: bytes
    salted: bytes

    def __repr__(self) -> str:
        return f"SaltedPassword({self.hashing.mechanism}, iterations={self.iterations})"


def salt_password(
    hashing: ScramHash, password: str, randomness: bytes, iterations: int = MIN_ITERATIONS
) -> SaltedPassword:
    """`randomness` are `SALT_RANDOMNESS` bytes. More iterations make each guess at a stolen credential slower."""
    salt = make_salt(randomness)
    return SaltedPassword(hashing, iterations, salt, hashing.salted_password(password, salt, iterations))
