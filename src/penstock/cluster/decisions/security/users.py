"""The controller's decisions about SCRAM users. Codes and texts are Kafka's.

A request names each user once; an error concerns its user alone. The controller gets the salted password, not the
password, and stores the keys by which both sides can be checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.cluster.security_image import SecurityImage, Settings, user_key, with_value
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.quotas.entities import USER, parse_entity_path
from penstock.security.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_HASHES,
    SCRAM_HASHES_BY_CODE,
    decode_credential,
    encode_credential,
    make_credential,
)

_TWICE = "A user credential cannot be altered twice in the same request"


class Upsertion(NamedTuple):
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion({self.user!r}, {self.mechanism}, {self.iterations})"


class Deletion(NamedTuple):
    user: str
    mechanism: int


class UserResult(NamedTuple):
    user: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def decide_alter_users(
    security: SecurityImage, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> tuple[tuple[UserResult, ...], SecurityImage]:
    """The users in the order of the request, deletions first."""
    accepted: dict[str, Deletion | Upsertion] = {}
    refused: dict[str, UserResult] = {}
    changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
    for change in changes:
        if change.user in refused:
            continue
        if accepted.pop(change.user, None) is not None:
            refused[change.user] = UserResult(change.user, ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            continue
        refusal = _check(security, change)
        if refusal is None:
            accepted[change.user] = change
        else:
            refused[change.user] = UserResult(change.user, *refusal)
    configs = security.entity_configs
    for change in accepted.values():
        key = user_key(change.user)
        configs = with_value(configs, key, _changed(configs.get(key, {}), change))
    results = (*(UserResult(user) for user in accepted), *refused.values())
    return results, security._replace(entity_configs=configs) if accepted else security


def set_passwords(security: SecurityImage, upsertions: Iterable[Upsertion]) -> SecurityImage:
    """Sets one mechanism after the other, as one request could not. Raises ApiError where a password is not
    accepted.
    """
    for upsertion in upsertions:
        results, security = decide_alter_users(security, (), (upsertion,))
        for result in results:
            if result.code != ErrorCode.NONE:
                raise ApiError(result.code, result.message)
    return security


def _check(security: SecurityImage, change: Deletion | Upsertion) -> tuple[ErrorCode, str] | None:
    if not change.user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    hashing = SCRAM_HASHES_BY_CODE.get(change.mechanism)
    if hashing is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, Deletion):
        if hashing.mechanism not in security.entity_configs.get(user_key(change.user), {}):
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if change.iterations < MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if change.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    # Kafka accepts these, and the user can never log in: an empty salt is no SCRAM message, an empty key any
    # password's.
    if not change.salt or not change.salted_password:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt and the salted password must not be empty"
    return None


def _changed(settings: Settings, change: Deletion | Upsertion) -> Settings:
    hashing = SCRAM_HASHES_BY_CODE[change.mechanism]
    kept = {name: value for name, value in settings.items() if name != hashing.mechanism}
    if isinstance(change, Deletion):
        return kept
    credential = make_credential(hashing, change.salted_password, change.salt, change.iterations)
    return {**kept, hashing.mechanism: encode_credential(credential)}


# ------------------------------------------------------------------------------------------------- looking


class KnownCredential(NamedTuple):
    mechanism: int
    iterations: int


def scram_users(security: SecurityImage) -> list[str]:
    """The users with a password, in order."""
    users = []
    for key, settings in security.entity_configs.items():
        names = parse_entity_path(key) or {}
        user = names.get(USER)
        if len(names) == 1 and user is not None and any(mechanism in settings for mechanism in SCRAM_HASHES):
            users.append(user)
    return sorted(users)


def describe_user(security: SecurityImage, user: str) -> list[KnownCredential]:
    """The description has neither salts nor keys. Unreadable credentials are left out."""
    settings = security.entity_configs.get(user_key(user), {})
    known = []
    for mechanism, hashing in SCRAM_HASHES.items():
        if mechanism in settings:
            try:
                known.append(KnownCredential(hashing.code, decode_credential(settings[mechanism]).iterations))
            except ValueError:
                continue
    return known
