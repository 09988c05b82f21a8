"""Measurements that need brokers of their own: start-up, many partitions, many connections, other settings."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.contenders import PENSTOCK, Contender, resident_megabytes
from bench.errors import BenchError
from bench.flooded import measure_flooded
from bench.loads import Figures, Scale, create_topic, now_ms, open_connections
from bench.wire import RawConnection, produce_error, produce_request, record_batch
from penstock.testing.processes import ServerProcess

PARTITION_COUNT = 1000
IDLE_CONNECTIONS = 5000
# File descriptors beyond the connections: the client's own, the broker's logs.
SPARE_DESCRIPTORS = 1000
START_PATIENCE_S = 120.0


def seconds_until_acknowledged(server: ServerProcess, topic: str) -> float:
    """From starting the process until a record in an existing topic is acknowledged."""
    request = produce_request(topic, 0, record_batch(b"first after start", now_ms()))
    started = time.perf_counter()
    server.spawn()
    while True:
        try:
            with RawConnection(server.host, server.port) as connection:
                while produce_error(connection.exchange(request), topic) != 0:
                    time.sleep(0.001)
                return time.perf_counter() - started
        except (OSError, BenchError):
            if not server.is_running:
                server.wait_until_ready()
                raise BenchError(f"{server.name} ended while starting") from None
        if time.perf_counter() - started > START_PATIENCE_S:
            raise BenchError(f"{server.name} acknowledged nothing within {START_PATIENCE_S} s of its start")
        time.sleep(0.001)


def restart_seconds(contender: Contender, directory: Path, partitions: int) -> float:
    server = contender.make(directory)
    with server:
        topic = create_topic(server, partitions)
        for partition in range(partitions):
            _write_one(server, topic, partition)
        server.terminate()
        seconds = seconds_until_acknowledged(server, topic)
    shutil.rmtree(directory, ignore_errors=True)
    return seconds


def _write_one(server: ServerProcess, topic: str, partition: int) -> None:
    request = produce_request(topic, partition, record_batch(b"one", now_ms()))
    with RawConnection(server.host, server.port) as connection:
        for _ in range(1000):
            if produce_error(connection.exchange(request), topic) == 0:
                return
            time.sleep(0.01)
    raise BenchError(f"{server.name} does not accept records for {topic}-{partition}")


def measure_start(contender: Contender, directory: Path, scale: Scale) -> Figures:
    figures = {"start": restart_seconds(contender, directory, 1)}
    if contender is PENSTOCK:
        figures["start-embedded"] = embedded_start_seconds()
    return figures


def embedded_start_seconds() -> float:
    """In a new interpreter, so that every sample is a first start."""
    command = [sys.executable, "-m", "bench.embedded_start"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if ended.returncode != 0:
        raise BenchError(f"the embedded broker did not start:\n{ended.stderr}")
    return float(ended.stdout.split()[-1])


def measure_partitions(contender: Contender, directory: Path, scale: Scale) -> Figures:
    return {"start-1000-partitions": restart_seconds(contender, directory, PARTITION_COUNT)}


def measure_connections(contender: Contender, directory: Path, scale: Scale) -> Figures:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = IDLE_CONNECTIONS + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise BenchError(f"{IDLE_CONNECTIONS} connections need a limit of {needed} open files; this shell's is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    with contender.make(directory) as server:
        create_topic(server)
        # What the first connections allocate once and for all is not a cost of the five thousand.
        for connection in open_connections(server, 20):
            connection.close()
        before = resident_megabytes(server.pid)
        connections = open_connections(server, IDLE_CONNECTIONS)
        after = resident_megabytes(server.pid)
        for connection in connections:
            connection.close()
    shutil.rmtree(directory, ignore_errors=True)
    return {"idle-connections": after - before}


# Name -> what it does with a broker of its own in every round.
LIFECYCLE: dict[str, Callable[[Contender, Path, Scale], Figures]] = {
    "start": measure_start,
    "partitions": measure_partitions,
    "connections": measure_connections,
    "flooded": measure_flooded,
}
