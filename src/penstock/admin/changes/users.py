"""Passwords of users (SCRAM). What is sent is salted here: no broker gets a password."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from penstock.admin.queries.refusals import Refusals, refusals
from penstock.admin.queries.users import deletion, upsertion
from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.security.sasl.passwords import SALT_RANDOMNESS, salt_password
from penstock.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_HASHES, SHA_512

Row = TypeVar("Row", ScramCredentialUpsertion, ScramCredentialDeletion)


class NewPassword(NamedTuple):
    """More iterations make each guess at a stolen credential slower."""

    user: str
    password: str
    mechanism: str = SHA_512.mechanism
    iterations: int = MIN_ITERATIONS

    def __repr__(self) -> str:
        return f"NewPassword({self.user!r}, mechanism={self.mechanism!r}, iterations={self.iterations})"


class Credential(NamedTuple):
    user: str
    mechanism: str = SHA_512.mechanism


async def set_passwords(brokers: Brokers, passwords: Iterable[NewPassword]) -> Refusals:
    """By user. Raises KeyError for a mechanism that is none of SCRAM."""
    wanted = list(passwords)
    # To salt with them would take hours, in a thread that nobody can stop.
    refused: Refusals = {each.user: _too_many() for each in wanted if each.iterations > MAX_ITERATIONS}
    kept = [each for each in wanted if each.iterations <= MAX_ITERATIONS]
    rows = await asyncio.to_thread(lambda: [_salt(each) for each in kept])  # each takes some milliseconds
    for some in _rounds(rows):
        refused |= await _alter(brokers, AlterUserScramCredentialsRequest(upsertions=some))
    return refused


async def delete_passwords(brokers: Brokers, credentials: Iterable[Credential]) -> Refusals:
    """By user. A password that is not there is refused. Raises KeyError for a mechanism that is none of SCRAM."""
    refused: Refusals = {}
    for some in _rounds(deletion(*each) for each in credentials):
        refused |= await _alter(brokers, AlterUserScramCredentialsRequest(deletions=some))
    return refused


def _too_many() -> ApiError:
    return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


def _salt(new: NewPassword) -> ScramCredentialUpsertion:
    randomness = secrets.token_bytes(SALT_RANDOMNESS)
    return upsertion(new.user, salt_password(SCRAM_HASHES[new.mechanism], new.password, randomness, new.iterations))


def _rounds(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """A request names a user once: the second mechanism of a user is for the second request."""
    by_user: dict[str, list[Row]] = {}
    for row in rows:
        by_user.setdefault(row.name, []).append(row)
    for turn in range(max(map(len, by_user.values()), default=0)):
        yield [own[turn] for own in by_user.values() if turn < len(own)]


async def _alter(brokers: Brokers, request: AlterUserScramCredentialsRequest) -> Refusals:
    answer: AlterUserScramCredentialsResponse = await brokers.ask_controller(request, retry=True)
    return refusals((row.user, row) for row in answer.results)
