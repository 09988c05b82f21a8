"""A client of one broker that sends every request at the highest version that both sides know.

The broker is asked for its versions once, when the client is opened. Blocking, and for one thread.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from typing import Self, TypeVar

from penstock.client.addresses import Address
from penstock.client.connection import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, BlockingConnection
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Response = TypeVar("Response", bound=Message)

_SOFTWARE_VERSION = "1"


class UnservedApiError(ApiError):
    """The broker serves no version of a request that is known here."""

    def __init__(self, api: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, f"the broker does not serve {api} in a version known here")
        self.api = api


def choose_version(request: type[Message], served: ApiVersionsResponse, newest: int | None = None) -> int:
    """The highest version that both sides know, and not above `newest`; UnservedApiError when there is none."""
    wanted = request.MAX_VERSION if newest is None else min(request.MAX_VERSION, newest)
    for api in served.api_keys:
        version = min(api.max_version, wanted)
        if api.api_key == request.API_KEY and version >= max(api.min_version, request.MIN_VERSION):
            return version
    raise UnservedApiError(request.__name__.removesuffix("Request"))


class VersionedClient:
    """`newest` limits the versions of some requests, by API key. `software` is what the broker's metrics and logs call
    this client: letters, digits, dots and dashes (KIP-511), where a client id may be anything.

    Every method may raise OSError (the connection ended, or no answer came in time) and UnservedApiError.
    """

    def __init__(
        self,
        connection: BlockingConnection,
        address: Address,
        software: str,
        newest: Mapping[int, int] | None = None,
        answer_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.address = address
        self._connection = connection
        self._newest = newest or {}
        self.served = _ask_versions(connection, software, answer_timeout_s)

    @classmethod
    def open(
        cls,
        address: Address,
        *,
        client_id: str,
        software: str,
        timeout_s: float = CONNECT_TIMEOUT_S,
        security: ClientSecurity = PLAINTEXT,
        newest: Mapping[int, int] | None = None,
        answer_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Self:
        """OSError when nobody listens there or answers, and ApiError when the broker does not tell its versions."""
        connection = BlockingConnection(*address, client_id=client_id, timeout_s=timeout_s, security=security)
        try:
            return cls(connection, address, software, newest, answer_timeout_s)
        except BaseException:
            connection.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    @property
    def certificate_until(self) -> datetime.datetime | None:
        """Until when the broker's certificate is valid; None without TLS, or for one that cannot be read."""
        return end_of_certificate(self._connection.peer_certificate)

    def request(
        self, message: Message, response: type[Response], *, timeout_s: float | None = REQUEST_TIMEOUT_S
    ) -> Response:
        return self.receive(self.send(message), response, timeout_s=timeout_s)

    def send(self, message: Message) -> int:
        """The number to `receive` the answer with: several requests may be on their way."""
        return self._connection.send(message, self.version_of(message))

    def version_of(self, message: Message) -> int:
        return choose_version(type(message), self.served, self._newest.get(message.API_KEY))

    def receive(
        self, request_id: int, response: type[Response], *, timeout_s: float | None = REQUEST_TIMEOUT_S
    ) -> Response:
        answer = self._connection.receive(request_id, timeout_s=timeout_s)
        assert isinstance(answer, response), f"a {response.__name__} is expected where {type(answer).__name__} comes"
        return answer

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def end_of_certificate(der: bytes | None) -> datetime.datetime | None:
    """None for no certificate, and for one that cannot be read."""
    if der is None:
        return None
    from penstock.security.tls.der import DerError, read_certificate

    with contextlib.suppress(DerError):
        return read_certificate(der).valid_until
    return None


def ask_for_versions(software: str) -> ApiVersionsRequest:
    """Sent at its highest version first. An older broker answers UNSUPPORTED_VERSION; all of them serve version 0."""
    return ApiVersionsRequest(client_software_name=software, client_software_version=_SOFTWARE_VERSION)


def _ask_versions(connection: BlockingConnection, software: str, timeout_s: float) -> ApiVersionsResponse:
    request = ask_for_versions(software)
    answer: ApiVersionsResponse = connection.request(request, ApiVersionsRequest.MAX_VERSION, timeout_s=timeout_s)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        answer = connection.request(request, 0, timeout_s=timeout_s)
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code)
    return answer
