"""Users of a cluster: asked over the wire, or written where a broker finds them when it starts."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.admin.queries.users import deletion, describe_users, read_users, upsertion
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError, UsageError
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from penstock.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
)
from penstock.security.sasl.passwords import SALT_RANDOMNESS, SaltedPassword, salt_password
from penstock.security.sasl.scram import SCRAM_HASHES

if TYPE_CHECKING:
    from penstock.cluster.decisions.security.users import Upsertion


class User(NamedTuple):
    name: str
    credentials: tuple[tuple[str, int], ...]  # mechanism and iterations


class Left(NamedTuple):
    """What a user without a password still has; None where that cannot be told."""

    acls: int | None
    tokens: int | None


def count_left(cluster: ClusterClient, name: str) -> Left:
    from penstock.cli.access.security.acls import read_acls
    from penstock.cli.access.security.tokens import list_tokens
    from penstock.security.acls.filters import AclFilter

    principal = f"User:{name}"
    acls = tokens = None
    with contextlib.suppress(CliError):  # brokers without an authorizer, or we may not look
        acls = len(read_acls(cluster, [AclFilter(principal=principal)]))
    with contextlib.suppress(CliError):  # brokers without tokens
        mine = [token for token in list_tokens(cluster, [principal]) if token.owner == principal]
        tokens = len(mine)
    return Left(acls, tokens)


def salt_passwords(password: str, mechanisms: Iterable[str], iterations: int) -> list[SaltedPassword]:
    return [
        salt_password(SCRAM_HASHES[mechanism], password, secrets.token_bytes(SALT_RANDOMNESS), iterations)
        for mechanism in mechanisms
    ]


def list_users(cluster: ClusterClient, names: Sequence[str] = ()) -> list[User]:
    """All users with a password, or those of `names` that have one."""
    with open_broker(cluster) as broker:
        response = broker.request(describe_users(names or None), DescribeUserScramCredentialsResponse)
    check_error(response.error_code, "users", response.error_message)
    for result in response.results:
        if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            check_error(result.error_code, f"user {result.user}", result.error_message)
    found = read_users(response).found
    return [User(name, tuple(user.credentials.items())) for name, user in found.items()]


def set_password(cluster: ClusterClient, name: str, passwords: Iterable[SaltedPassword]) -> None:
    """One request for each mechanism: a request names a user once."""
    for each in passwords:
        _alter(cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion(name, each)]))


def remove_password(cluster: ClusterClient, name: str, mechanisms: Iterable[str]) -> None:
    for mechanism in mechanisms:
        _alter(cluster, AlterUserScramCredentialsRequest(deletions=[deletion(name, mechanism)]))


def _alter(cluster: ClusterClient, request: AlterUserScramCredentialsRequest) -> None:
    with open_broker(cluster) as broker:
        response = broker.request(request, AlterUserScramCredentialsResponse)
    for result in response.results:
        check_error(result.error_code, f"user {result.user}", result.error_message)


def write_password(data: Path, name: str, passwords: Iterable[SaltedPassword]) -> None:
    """Into the store of a single node that does not run."""
    from penstock.cluster.store.interface import StoreError
    from penstock.core.clock import SystemClock
    from penstock.log.directories.log_directories import LogDirectoryError
    from penstock.server.offline_passwords import write_passwords
    from penstock.server.stores import METADATA_FILE

    if not (data / METADATA_FILE).is_file():  # a store would be made, and nobody would look into it
        raise UsageError(f"{data} has no data of a broker", "Before its first start, see --first-users-file.")
    try:
        asyncio.run(write_passwords(data, _upsertions(name, passwords), SystemClock()))
    except (StoreError, LogDirectoryError, OSError) as error:
        raise CliError(
            str(error), "Without --data-dir the user is added over the wire, to a broker that runs."
        ) from error
    except ApiError as error:
        raise CliError(f"user {name}: {error.message}") from error


def write_first_user(file: Path, name: str, passwords: Iterable[SaltedPassword]) -> None:
    """Beside those that are in the file of a cluster's first users; the file is made if it is missing."""
    from penstock.cluster.controller.first_users import format_first_users, read_first_users
    from penstock.cluster.decisions.security.users import set_passwords
    from penstock.cluster.store.interface import StoreError
    from penstock.security.private_files import write_private

    try:
        present = read_first_users(str(file) if file.exists() else "")
        write_private(file, format_first_users(set_passwords(present, _upsertions(name, passwords))).encode())
    except (StoreError, OSError) as error:
        raise CliError(str(error), "Check --first-users-file.") from error
    except ApiError as error:
        raise CliError(f"user {name}: {error.message}") from error


def _upsertions(name: str, passwords: Iterable[SaltedPassword]) -> list[Upsertion]:
    from penstock.cluster.decisions.security.users import Upsertion

    return [Upsertion(name, each.hashing.code, each.iterations, each.salt, each.salted) for each in passwords]
