"""Requests that the client library does not offer, over our own connections, at the highest version both sides know."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.cli.access.cluster_client import ClusterClient, parse_servers
from penstock.cli.access.connect import CLIENT_ID, open_first, security_of
from penstock.cli.errors import CliError, ExitCode, hint_for
from penstock.client.addresses import Address
from penstock.client.connection import REQUEST_TIMEOUT_S, ConnectionClosedError
from penstock.client.versioned_client import UnservedApiError, VersionedClient
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from penstock.admin.blocking_admin import Admin

_GROUP_KEY = 0
_VERSIONS_HINT = "`penstock cluster api-versions` shows what the broker serves."


@contextlib.contextmanager
def open_broker(
    cluster: ClusterClient, address: Address | None = None, patience_s: float = REQUEST_TIMEOUT_S
) -> Iterator[VersionedClient]:
    """The broker at `address`, or the first of the bootstrap servers that answers. Failures inside become CliErrors.

    `patience_s` is for the first answer: a broker that hangs is found out by it. Where another one can be asked instead
    there is no reason to wait for long. One that was silent before in this run is asked last.
    """
    candidates = parse_servers(cluster.bootstrap_servers) if address is None else [address]
    if len(candidates) > 1:
        patience_s = min(patience_s, cluster.patience_s)
    with open_first(candidates, cluster.settings, patience_s, cluster.heard) as client:
        host, port = client.address
        try:
            yield client
        except (ConnectionClosedError, TimeoutError) as error:
            cluster.heard.note_failure(client.address, error)
            raise CliError(f"{host}:{port}: {error}", "Its log may say why.", ExitCode.UNREACHABLE) from error
        except UnservedApiError as error:
            raise CliError(f"{host}:{port}: {error.message}", _VERSIONS_HINT) from error


def open_admin(
    cluster: ClusterClient, timeout_s: float | None = None, servers: Sequence[Address] | None = None
) -> Admin:
    """The administration of the cluster, or of the one that has these `servers`. `timeout_s` is for each answer.
    Connects to nothing yet.
    """
    from penstock.admin.blocking_admin import connect
    from penstock.admin.look import ANSWER_TIMEOUT_S

    return connect(
        parse_servers(cluster.bootstrap_servers) if servers is None else servers,
        security=security_of(cluster.settings),
        client_id=CLIENT_ID,
        timeout_s=ANSWER_TIMEOUT_S if timeout_s is None else timeout_s,
    )


def make_connect(cluster: ClusterClient) -> Callable[[Address, float], VersionedClient]:
    """How `health` opens a broker by itself: the time is that for the connection and for each answer."""
    security = security_of(cluster.settings)

    def connect(address: Address, timeout_s: float) -> VersionedClient:
        return VersionedClient.open(
            address,
            client_id=CLIENT_ID,
            software=CLIENT_ID,
            security=security,
            timeout_s=timeout_s,
            answer_timeout_s=timeout_s,
        )

    return connect


def find_group_coordinator(cluster: ClusterClient, group: str) -> Address:
    return find_coordinator(cluster, _GROUP_KEY, group)[1]


def find_coordinator(cluster: ClusterClient, key_type: int, key: str) -> tuple[int, Address]:
    """The number of the broker, and where it is."""
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    with open_broker(cluster) as broker:
        response = broker.request(request, FindCoordinatorResponse)
    coordinator = response.coordinators[0] if response.coordinators else response
    check_error(coordinator.error_code, f"group {key}" if key_type == _GROUP_KEY else f"transactional id {key}")
    return coordinator.node_id, (coordinator.host, coordinator.port)


def check_error(code: int, subject: str, message: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise refusal(error_of(code, message), subject)


def refusal(error: ApiError, subject: str) -> CliError:
    """What a broker said no to, in the words of the command line."""
    return CliError(f"{subject}: {error.message}", hint_for(error.code.name), name=error.code.name)
