"""One record at a time into one topic while the files of another, large topic are removed."""

from __future__ import annotations

import time
from pathlib import Path

import confluent_kafka.admin

from bench.contenders import data_directory
from bench.errors import BenchError
from bench.loads import PATIENCE_S, Figures, Scale, client_settings, create_topic, now_ms, percentile, topic_of
from bench.preload import preload_uniformly
from bench.wire import RawConnection, produce_error, produce_request, record_batch
from penstock.testing.processes import ServerProcess

VALUE_BYTES = 1024
# A client that is not the load itself: it looks what everybody else would feel.
PAUSE_SECONDS = 0.001
# Brokers look for what is due every few seconds, and some rest after the last file.
QUIET_SECONDS = 1.0


def measure_deletion(server: ServerProcess, scale: Scale) -> Figures:
    large = create_topic(server)
    preload_uniformly(server, large, VALUE_BYTES, scale.megabytes_deleted * 1_000_000 // VALUE_BYTES, now_ms())
    admin = confluent_kafka.admin.AdminClient(client_settings(server))
    with topic_of(server) as topic:
        admin.delete_topics([large])[large].result(PATIENCE_S)
        waits = sorted(_wait_times(server, topic, data_directory(server)))
    return {
        "deletion-p99": percentile(waits, 99) / 1000,
        "deletion-longest": waits[-1] / 1000,
        "deletion-size": scale.megabytes_deleted,
    }


def _wait_times(server: ServerProcess, topic: str, data: Path) -> list[int]:
    """Microseconds of each produce until the files are gone."""
    waits: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    end: float | None = None
    with RawConnection(server.host, server.port) as connection:
        while end is None or time.monotonic() < end:
            request = produce_request(topic, 0, record_batch(b"small", now_ms()))
            started = time.perf_counter_ns()
            if produce_error(connection.exchange(request), topic):
                raise BenchError(f"{server.name} refuses a record")
            waits.append((time.perf_counter_ns() - started) // 1000)
            if end is None and not any(data.glob("*-delete")):
                end = time.monotonic() + QUIET_SECONDS
            if time.monotonic() > deadline:
                raise BenchError(f"{server.name} has not removed a topic within {PATIENCE_S} s")
            time.sleep(PAUSE_SECONDS)
    return waits
