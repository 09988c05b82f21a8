"""Fetching with a bare socket: what the broker sends, without what a client makes of it.

librdkafka allocates for each record, and on small records its allocator decides the consume rows. Here the bytes are
received into one buffer and counted by whole batches.
"""

from __future__ import annotations

import socket
import struct
import time

from bench.errors import BenchError
from bench.loads import Figures, Scale, now_ms, topic_of
from bench.preload import UNIFORM_BATCH_BYTES, preload
from bench.wire import SOCKET_TIMEOUT_S
from penstock.protocol.records import Record, build_batch
from penstock.testing.processes import ServerProcess

FETCH, FETCH_VERSION = 1, 11
VALUE_BYTES = 1024
# What consumers ask for by default: of the whole answer, and of each partition.
MAX_BYTES, MAX_PARTITION_BYTES = 50 << 20, 1 << 20
MAX_WAIT_MS = 500
FIRST_OFFSET = 1  # the record that `topic_of` writes comes before
NO_SESSION = -1


def measure_fetching(server: ServerProcess, scale: Scale) -> Figures:
    per_batch = UNIFORM_BATCH_BYTES // VALUE_BYTES
    batch = build_batch([Record(None, bytes(VALUE_BYTES), timestamp=now_ms()) for _ in range(per_batch)])
    count = scale.megabytes_large * 1_000_000 // len(batch)
    with topic_of(server) as topic:
        preload(server, topic, [batch], count)
        started = time.perf_counter()
        _fetch(server, topic, len(batch), per_batch, count)
        seconds = time.perf_counter() - started
    return {"fetch": count * len(batch) / seconds / 1_000_000}


def _fetch(server: ServerProcess, topic: str, batch_size: int, per_batch: int, count: int) -> None:
    """Until `count` batches were received, each request after the answer to the one before."""
    room = memoryview(bytearray(MAX_PARTITION_BYTES + batch_size + 1024))
    fetched = 0
    with socket.create_connection((server.host, server.port), timeout=SOCKET_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while fetched < count:
            connection.sendall(fetch_request(topic, FIRST_OFFSET + fetched * per_batch))
            size = int.from_bytes(_receive(connection, room[:4]), "big")
            records_size = _records_size(_receive(connection, room[:size]), topic)
            if records_size < batch_size:
                raise BenchError(f"{server.name} sent {records_size} bytes where batches of {batch_size} are left")
            fetched += records_size // batch_size  # the last one may be cut off


def fetch_request(topic: str, offset: int) -> bytes:
    name = topic.encode()
    partition = struct.pack(">iiqqi", 0, -1, offset, -1, MAX_PARTITION_BYTES)
    topics = struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 1) + partition
    body = struct.pack(">iiiibii", -1, MAX_WAIT_MS, 1, MAX_BYTES, 0, 0, NO_SESSION) + topics + struct.pack(">ih", 0, 0)
    frame = struct.pack(">hhih", FETCH, FETCH_VERSION, 0, -1) + body
    return struct.pack(">i", len(frame)) + frame


def _receive(connection: socket.socket, room: memoryview) -> memoryview:
    position = 0
    while position < len(room):
        received = connection.recv_into(room[position:])
        if not received:
            raise BenchError("the broker closed the connection")
        position += received
    return room


def _records_size(response: memoryview, topic: str) -> int:
    """Correlation id, throttle time, error, session and the topic come first; then the one partition."""
    position = 4 + 4 + 2 + 4 + 4 + 2 + len(topic.encode()) + 4
    _, error, _, _, _, aborted, _, size = struct.unpack_from(">ihqqqiii", response, position)
    if error or aborted > 0:
        raise BenchError(f"a fetch was answered with error {error}, {aborted} aborted transactions")
    return int(size)
