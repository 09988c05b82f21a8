"""A client that costs next to nothing: requests are encoded once and sent over a bare socket.

So what is measured is the broker. Only what the benchmark sends is here, at the versions that librdkafka uses.
"""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Self

import google_crc32c

from bench.errors import BenchError

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
PRODUCE_VERSION, METADATA_VERSION, API_VERSIONS_VERSION = 10, 12, 3
CLIENT_ID = b"bench"
ACKS_ALL = -1
REQUEST_TIMEOUT_MS = 30_000
RECEIVE_BYTES = 1 << 18
SOCKET_TIMEOUT_S = 60.0


def unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    return unsigned_varint((value << 1) ^ (value >> 63))


def compact_bytes(data: bytes) -> bytes:
    return unsigned_varint(len(data) + 1) + data


def record_batch(value: bytes, timestamp: int) -> bytes:
    """A batch of one record without key, headers, compression or producer."""
    body = b"\x00" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    record = varint(len(body)) + body
    covered = struct.pack(">hiqqqhii", 0, 0, timestamp, timestamp, -1, -1, -1, 1) + record
    checksum = google_crc32c.value(covered)
    after_length = struct.pack(">ibI", -1, 2, checksum) + covered
    return struct.pack(">qi", 0, len(after_length)) + after_length


def frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID + b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_request(topic: str, partition: int, batch: bytes) -> bytes:
    partitions = unsigned_varint(2) + struct.pack(">i", partition) + compact_bytes(batch) + b"\x00"
    topics = unsigned_varint(2) + compact_bytes(topic.encode()) + partitions + b"\x00"
    body = b"\x00" + struct.pack(">hi", ACKS_ALL, REQUEST_TIMEOUT_MS) + topics + b"\x00"
    return frame(PRODUCE, PRODUCE_VERSION, body)


def produce_error(response: bytes, topic: str) -> int:
    """The error code: after correlation id, header tags, topic count, name, partition count and partition index."""
    position = 4 + 1 + 1 + len(compact_bytes(topic.encode())) + 1 + 4
    return int.from_bytes(response[position : position + 2], "big", signed=True)


def metadata_request(topic: str, may_create: bool) -> bytes:
    topics = unsigned_varint(2) + bytes(16) + compact_bytes(topic.encode()) + b"\x00"
    return frame(METADATA, METADATA_VERSION, topics + (b"\x01" if may_create else b"\x00") + b"\x00\x00")


def api_versions_request() -> bytes:
    body = compact_bytes(b"bench") + compact_bytes(b"1.0") + b"\x00"
    return frame(API_VERSIONS, API_VERSIONS_VERSION, body)


class RawConnection:
    """One blocking socket; responses are counted by their frames and otherwise left alone."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection((host, port), timeout=SOCKET_TIMEOUT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        self._pending = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> list[bytes]:
        """At least one whole response, without its length."""
        responses: list[bytes] = []
        while not responses:
            received = self._socket.recv(RECEIVE_BYTES)
            if not received:
                raise BenchError("the broker closed the connection")
            data = self._pending + received if self._pending else received
            position = 0
            while len(data) - position >= 4:
                end = position + 4 + int.from_bytes(data[position : position + 4], "big")
                if end > len(data):
                    break
                responses.append(data[position + 4 : end])
                position = end
            self._pending = data[position:]
        return responses

    def exchange(self, request: bytes) -> bytes:
        self.send(request)
        return self.receive()[0]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
