"""A client of one broker that sends every request at the highest version that both sides know.

The broker is asked for its versions once, when the client is opened. Blocking, and for one thread.
"""

from __future__ import annotations

import datetime
from typing import Any, Self, TypeVar

from penstock.client.addresses import Address
from penstock.client.connection.blocking_connection import BlockingConnection, take_steps
from penstock.client.connection.certificate import end_of_certificate
from penstock.client.connection.core import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
from penstock.client.connection.versions import NO_LIMITS, Newest, UnservedApiError, Versions, ask_versions
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsResponse

__all__ = ["UnservedApiError", "VersionedClient"]

Response = TypeVar("Response", bound=Message)


class VersionedClient:
    """`newest` limits the versions of some requests. `software` is what the broker's metrics and logs call
    this client: letters, digits, dots and dashes (KIP-511), where a client id may be anything.

    Every method may raise OSError (the connection ended, or no answer came in time) and UnservedApiError.
    """

    def __init__(
        self,
        connection: BlockingConnection,
        address: Address,
        software: str,
        newest: Newest = NO_LIMITS,
        answer_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.address = address
        self._connection = connection

        def ask(message: Message, version: int) -> Any:
            return connection.request(message, version, timeout_s=answer_timeout_s)

        self._versions = Versions(take_steps(ask_versions(software), ask), newest)

    @property
    def served(self) -> ApiVersionsResponse:
        return self._versions.served

    @classmethod
    def open(
        cls,
        address: Address,
        *,
        client_id: str,
        software: str,
        timeout_s: float = CONNECT_TIMEOUT_S,
        security: ClientSecurity = PLAINTEXT,
        newest: Newest = NO_LIMITS,
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
        return self._versions.choose(type(message))

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
