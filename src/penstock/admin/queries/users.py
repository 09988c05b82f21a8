"""Users with passwords (SCRAM)."""

from __future__ import annotations

from collections.abc import Collection

from penstock.admin.state.parts import Failure, Partial
from penstock.admin.state.users import UserState
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from penstock.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from penstock.security.sasl.passwords import SaltedPassword
from penstock.security.sasl.scram import SCRAM_HASHES, SCRAM_HASHES_BY_CODE


def describe_users(names: Collection[str] | None) -> DescribeUserScramCredentialsRequest:
    """None asks for all."""
    return DescribeUserScramCredentialsRequest(users=None if names is None else [UserName(name=name) for name in names])


def read_users(answer: DescribeUserScramCredentialsResponse) -> Partial[dict[str, UserState]]:
    """Raises ApiError where the answer as a whole says why not. One who is not there is among the failures."""
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code, answer.error_message or None)
    found = {}
    failures = []
    for row in sorted(answer.results, key=lambda row: row.user):
        if row.error_code != ErrorCode.NONE:
            failures.append(Failure.of(f"user {row.user}", error_of(row.error_code, row.error_message or None)))
            continue
        found[row.user] = UserState(
            row.user, {_mechanism(each.mechanism): each.iterations for each in row.credential_infos}
        )
    return Partial(found, tuple(failures))


def upsertion(user: str, password: SaltedPassword) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user,
        mechanism=password.hashing.code,
        iterations=password.iterations,
        salt=password.salt,
        salted_password=password.salted,
    )


def deletion(user: str, mechanism: str) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=SCRAM_HASHES[mechanism].code)


def _mechanism(code: int) -> str:
    known = SCRAM_HASHES_BY_CODE.get(code)
    return f"mechanism {code}" if known is None else known.mechanism
