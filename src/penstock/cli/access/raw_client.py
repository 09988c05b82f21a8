"""Requests that the client library does not offer, over our own connection, at the highest version both sides know."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any

from penstock.cli.access.cluster_client import Cluster, parse_servers
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.client.connection import BlockingConnection, ConnectionClosedError
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest

_GROUP_KEY = 0
_UNSUPPORTED_VERSION = 35


class RawBroker:
    """One broker, and the versions it serves."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self.versions = _ask_versions(connection)

    def request(self, message: Message) -> Any:
        return self._connection.request(message, choose_version(type(message), self.versions))


@contextlib.contextmanager
def open_broker(cluster: Cluster, address: tuple[str, int] | None = None) -> Iterator[RawBroker]:
    """The broker at `address`, or the first of the bootstrap servers that answers."""
    candidates = parse_servers(cluster.bootstrap_servers) if address is None else [address]
    tls = _tls_context(cluster)
    failures = []
    for host, port in candidates:
        try:
            connection = BlockingConnection(host, port, client_id="penstock-cli", tls=tls)
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
            continue
        with connection:
            try:
                yield RawBroker(connection)
            except (ConnectionClosedError, TimeoutError) as error:
                raise CliError(f"{host}:{port}: {error}", "Its log may say why.", ExitCode.UNREACHABLE) from error
        return
    raise CliError(f"no broker answers at {', '.join(failures)}", "Check --bootstrap-server.", ExitCode.UNREACHABLE)


def find_group_coordinator(cluster: Cluster, group: str) -> tuple[str, int]:
    return find_coordinator(cluster, _GROUP_KEY, group)


def find_coordinator(cluster: Cluster, key_type: int, key: str) -> tuple[str, int]:
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    with open_broker(cluster) as broker:
        response = broker.request(request)
    found = response.coordinators[0] if response.coordinators else response
    check_error(found.error_code, f"group {key}" if key_type == _GROUP_KEY else f"transactional id {key}")
    return found.host, found.port


def check_error(code: int, subject: str, message: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise CliError(f"{subject}: {message or describe(ErrorCode(code))}")


def choose_version(message: type[Message], versions: ApiVersionsResponse) -> int:
    """The highest version both sides know; CliError when there is none."""
    for api in versions.api_keys:
        if api.api_key == message.API_KEY:
            version = min(api.max_version, message.MAX_VERSION)
            if version >= max(api.min_version, message.MIN_VERSION):
                return version
            break
    name = message.__name__.removesuffix("Request")
    raise CliError(f"the broker does not serve {name}", "`penstock cluster api-versions` shows what it serves.")


def _ask_versions(connection: BlockingConnection) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="penstock-cli", client_software_version="1")
    response: ApiVersionsResponse = connection.request(request, ApiVersionsRequest.MAX_VERSION)
    if response.error_code == _UNSUPPORTED_VERSION:  # an older broker; version 0 is served by all of them
        response = connection.request(request, 0)
    check_error(response.error_code, "ApiVersions")
    return response


def _tls_context(cluster: Cluster) -> ssl.SSLContext | None:
    protocol = cluster.settings.get("security.protocol", "plaintext").lower()
    if protocol == "plaintext":
        return None
    if protocol != "ssl":
        raise UsageError(f"this command cannot log in with {protocol} yet", "Use a PLAINTEXT or SSL listener for it.")
    context = ssl.create_default_context(cafile=cluster.settings.get("ssl.ca.location"))
    if cluster.settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if certificate := cluster.settings.get("ssl.certificate.location"):
        key = cluster.settings.get("ssl.key.location")
        context.load_cert_chain(certificate, key, cluster.settings.get("ssl.key.password"))
    return context
