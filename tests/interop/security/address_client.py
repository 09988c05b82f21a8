"""A client that chooses the address it comes from: by that brokers without logins tell clients apart."""

from __future__ import annotations

import socket
from typing import Any, Self

from penstock.client.connection.core import ConnectionCore
from penstock.client.connection.frames import FRAME_LENGTH, MAX_FRAME_SIZE
from penstock.protocol.message import Message

TIMEOUT_S = 20.0


class AddressClient:
    def __init__(self, port: int, source: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S, source_address=(source, 0))
        self._core = ConnectionCore("address-client", MAX_FRAME_SIZE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, message: Message, version: int) -> Any:
        correlation_id, frame = self._core.encode_request(message, version)
        self._socket.sendall(frame)
        (size,) = FRAME_LENGTH.unpack(self._read(FRAME_LENGTH.size))
        answered_id, response = self._core.take_answer(self._read(size))
        assert answered_id == correlation_id
        return response

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data
