"""Fills a log with the same batches whatever the broker: a client's depend on how quickly it is answered."""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import BenchError
from bench.wire import RawConnection, produce_error, produce_request
from penstock.protocol.records import Record, build_batch
from penstock.testing.processes import ServerProcess

IN_FLIGHT = 5
# Between a Java producer's default (16 KiB) and what librdkafka sends in a hurry (1 MB).
UNIFORM_BATCH_BYTES = 64 * 1024


def preload(server: ServerProcess, topic: str, batches: Sequence[bytes], repetitions: int, partition: int = 0) -> None:
    requests = [produce_request(topic, partition, batch) for batch in batches]
    with RawConnection(server.host, server.port) as connection:
        on_the_way = 0
        for _ in range(repetitions):
            for request in requests:
                if on_the_way == IN_FLIGHT:
                    on_the_way -= _receive(connection, server, topic)
                connection.send(request)
                on_the_way += 1
        while on_the_way:
            on_the_way -= _receive(connection, server, topic)


def preload_uniformly(
    server: ServerProcess, topic: str, value_bytes: int, count: int, now_ms: int, partition: int = 0
) -> None:
    """At least `count` records without keys, in batches of one size."""
    per_batch = max(UNIFORM_BATCH_BYTES // value_bytes, 1)
    batch = build_batch([Record(None, bytes(value_bytes), timestamp=now_ms) for _ in range(per_batch)])
    preload(server, topic, [batch], -(-count // per_batch), partition)


def _receive(connection: RawConnection, server: ServerProcess, topic: str) -> int:
    responses = connection.receive()
    for response in responses:
        if error := produce_error(response, topic):
            raise BenchError(f"{server.name} answered a produce with error {error}")
    return len(responses)
