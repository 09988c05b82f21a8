"""Requests that the client library does not offer, over our own connection, at the highest version both sides know."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator, Sequence

from penstock.cli.access.cluster_client import CONNECT_TIMEOUT_SECONDS, Cluster, parse_servers, unreachable
from penstock.cli.errors import CliError, ExitCode, UsageError, hint_for
from penstock.client.addresses import Address
from penstock.client.connection import REQUEST_TIMEOUT_S, ConnectionClosedError, LoginRefusedError
from penstock.client.credentials import CredentialsError
from penstock.client.security import ClientSecurity, client_security, kafka_properties, why_not_ours
from penstock.client.versioned import UnservedApiError, VersionedClient
from penstock.core.config.types import ConfigError
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

_GROUP_KEY = 0
_CLIENT_ID = "penstock-cli"
_LOGIN_HINT = "Check the user, the password and the mechanism in the file given to --command-config."
_TLS_HINT = "Check security.protocol and ssl.* in the file given to --command-config, and the host's name."
_VERSIONS_HINT = "`penstock cluster api-versions` shows what the broker serves."


@contextlib.contextmanager
def open_broker(
    cluster: Cluster, address: Address | None = None, patience_s: float = REQUEST_TIMEOUT_S
) -> Iterator[VersionedClient]:
    """The broker at `address`, or the first of the bootstrap servers that answers. Failures inside become CliErrors.

    `patience_s` is for the first answer: a broker that hangs is found out by it. Where another one can be asked instead
    there is no reason to wait for long.
    """
    candidates = parse_servers(cluster.bootstrap_servers) if address is None else [address]
    if len(candidates) > 1:
        patience_s = min(patience_s, CONNECT_TIMEOUT_SECONDS)
    with _open_first(candidates, security_of(cluster), patience_s) as client:
        host, port = client.address
        try:
            yield client
        except (ConnectionClosedError, TimeoutError) as error:
            raise CliError(f"{host}:{port}: {error}", "Its log may say why.", ExitCode.UNREACHABLE) from error
        except UnservedApiError as error:
            raise CliError(f"{host}:{port}: {error.message}", _VERSIONS_HINT) from error


def _open_first(candidates: Sequence[Address], security: ClientSecurity, patience_s: float) -> VersionedClient:
    failures = []
    for host, port in candidates:
        try:
            return VersionedClient.open(
                (host, port), client_id=_CLIENT_ID, software=_CLIENT_ID, security=security, answer_timeout_s=patience_s
            )
        except LoginRefusedError as error:
            raise CliError(f"{host}:{port}: {error}", _LOGIN_HINT, ExitCode.UNREACHABLE) from error
        except ssl.SSLError as error:
            raise CliError(f"{host}:{port}: {_tls_failure(error)}", _TLS_HINT, ExitCode.UNREACHABLE) from error
        except ConnectionClosedError as error:
            failures.append(f"{host}:{port} ({error}; has its listener this security.protocol?)")
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
        except ApiError as error:
            raise CliError(f"{host}:{port} does not tell its versions: {error.message}") from error
    raise unreachable(failures)


def _tls_failure(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return f"no TLS connection: {(error.reason or str(error)).replace('_', ' ').lower()}"


def try_login(cluster: Cluster) -> None:
    """Raises CliError where the cluster does not let us in. Settings that the client library alone understands are left
    for it to try.
    """
    if why_not_ours(cluster.settings):
        return
    with open_broker(cluster, patience_s=CONNECT_TIMEOUT_SECONDS) as broker:
        try:  # versions are told before the login: a broker that wants one ends the connection at the next request
            broker.request(MetadataRequest(topics=[]), MetadataResponse)
        except ConnectionClosedError as error:
            host, port = broker.address
            raise CliError(f"{host}:{port} wants another login: {error}", _LOGIN_HINT, ExitCode.UNREACHABLE) from error


def make_connect(cluster: Cluster) -> Callable[[Address, float], VersionedClient]:
    """How `health` opens the brokers of the cluster: the time is that for the connection and for each answer."""
    security = security_of(cluster)

    def connect(address: Address, timeout_s: float) -> VersionedClient:
        return VersionedClient.open(
            address,
            client_id=_CLIENT_ID,
            software=_CLIENT_ID,
            security=security,
            timeout_s=timeout_s,
            answer_timeout_s=timeout_s,
        )

    return connect


def find_group_coordinator(cluster: Cluster, group: str) -> Address:
    return find_coordinator(cluster, _GROUP_KEY, group)


def find_coordinator(cluster: Cluster, key_type: int, key: str) -> Address:
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    with open_broker(cluster) as broker:
        response = broker.request(request, FindCoordinatorResponse)
    coordinator = response.coordinators[0] if response.coordinators else response
    check_error(coordinator.error_code, f"group {key}" if key_type == _GROUP_KEY else f"transactional id {key}")
    return coordinator.host, coordinator.port


def check_error(code: int, subject: str, message: str | None = None) -> None:
    if code != ErrorCode.NONE:
        error = ErrorCode(code)
        raise CliError(f"{subject}: {message or describe(error)}", hint_for(error.name), name=error.name)


def security_of(cluster: Cluster) -> ClientSecurity:
    try:
        return client_security(kafka_properties(cluster.settings))
    except ConfigError as error:
        raise UsageError(error.message, "Check security.protocol and ssl.* in --command-config or -X.") from error
    except CredentialsError as error:
        raise UsageError(str(error), _LOGIN_HINT) from error
