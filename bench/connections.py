"""What the client's connection costs: one small request, fetches of 64 KB and of 1 MB, opening, and the import.

The other side answers with bytes made before, in a process of its own, so that the client alone is measured. Figures
are in microseconds: the client's processor time, then the time on the wall. `loop in a thread` is the asyncio
connection called from another thread, as a blocking face over coroutines would do. Compare two trees in turns:
PYTHONPATH decides.

    python -m bench.connections [rounds]
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from penstock.client.connection import BlockingConnection, Connection
from penstock.protocol.codec import encode
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

HOST = "127.0.0.1"
Work = tuple[Message, int, int]  # a request, its version, and how often it is sent in a round
Figures = dict[str, tuple[float, float]]

FETCH = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])])
WORKS: dict[str, tuple[Work, Message]] = {
    "small": ((ListGroupsRequest(), 4, 2_000), ListGroupsResponse(groups=[ListedGroup(group_id="g")])),
    **{
        name: (
            (FETCH, 12, count),
            FetchResponse(
                responses=[
                    FetchableTopicResponse(topic="t", partitions=[PartitionData(records=memoryview(bytes(size)))])
                ]
            ),
        )
        for name, size, count in (("64 KB", 64 * 1024, 2_000), ("1 MB", 1024 * 1024, 300))
    },
}
OPENINGS = 300
# The modules that an executor imports, by the names that both of two trees have.
IMPORTED = ("penstock.client.versioned_client", "penstock.pipelines.source.brokers")


def answer_always(listener: socket.socket, body: bytes) -> None:
    """Answers every request on every connection with the same body."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve, args=(client, body), daemon=True).start()


def _serve(client: socket.socket, body: bytes) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client, client.makefile("rb") as stream:
        while prefix := stream.read(4):
            request = stream.read(struct.unpack(">i", prefix)[0])
            client.sendall(struct.pack(">i", len(body) + 5) + request[4:8] + b"\0" + body)


@contextmanager
def serving(body: bytes) -> Iterator[int]:
    with socket.create_server((HOST, 0), backlog=1_000) as listener:
        process = multiprocessing.get_context("fork").Process(target=answer_always, args=(listener, body), daemon=True)
        process.start()
        try:
            yield listener.getsockname()[1]
        finally:
            process.kill()
            process.join()


def measure(work: Callable[[], object], count: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return (time.process_time() - cpu) / count * 1e6, (time.perf_counter() - wall) / count * 1e6


def ask_blocking(port: int, work: Work) -> tuple[float, float]:
    message, version, count = work

    def ask(connection: BlockingConnection, times: int) -> None:
        for _ in range(times):
            connection.receive(connection.send(message, version))

    with BlockingConnection(HOST, port) as connection:
        ask(connection, 50)
        return measure(lambda: ask(connection, count), count)


async def _ask(connection: Connection, message: Message, version: int, times: int) -> None:
    for _ in range(times):
        await connection.request(message, version)


def ask_asyncio(port: int, work: Work) -> tuple[float, float]:
    message, version, count = work
    with asyncio.Runner() as runner:
        connection = runner.run(Connection.open(HOST, port))
        runner.run(_ask(connection, message, version, 50))
        figures = measure(lambda: runner.run(_ask(connection, message, version, count)), count)
        runner.run(connection.close())
        return figures


class LoopInThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def ask_in_thread(port: int, work: Work) -> tuple[float, float]:
    message, version, count = work
    loop = LoopInThread()
    connection = loop.run(Connection.open(HOST, port))

    def ask(times: int) -> None:
        for _ in range(times):
            loop.run(connection.request(message, version))

    ask(50)
    figures = measure(lambda: ask(count), count)
    loop.run(connection.close())
    loop.close()
    return figures


FACES = {"blocking": ask_blocking, "asyncio": ask_asyncio, "loop in a thread": ask_in_thread}


def open_all(port: int) -> Figures:
    def blocking() -> None:
        for _ in range(OPENINGS):
            BlockingConnection(HOST, port).close()

    async def awaited() -> None:
        for _ in range(OPENINGS):
            await (await Connection.open(HOST, port)).close()

    def in_threads() -> None:
        for _ in range(OPENINGS // 10):
            loop = LoopInThread()
            loop.run(loop.run(Connection.open(HOST, port)).close())
            loop.close()

    return {
        "open, blocking": measure(blocking, OPENINGS),
        "open, asyncio": measure(lambda: asyncio.run(awaited()), OPENINGS),
        "open, loop in a thread": measure(in_threads, OPENINGS // 10),
    }


def import_all() -> Figures:
    """In a process that has what every executor has."""
    figures = {}
    for name in IMPORTED:
        code = (
            "import pyarrow, ssl, numpy, time; cpu, wall = time.process_time(), time.perf_counter(); "
            f"import {name}; print((time.process_time() - cpu) * 1e6, (time.perf_counter() - wall) * 1e6)"
        )
        command = [sys.executable, "-c", code]
        told = subprocess.run(command, capture_output=True, check=True, text=True, env=os.environ).stdout.split()
        figures[f"import {name}"] = (float(told[0]), float(told[1]))
    return figures


def run_round() -> Figures:
    figures: Figures = {}
    for name, (work, response) in WORKS.items():
        with serving(encode(response, work[1])) as port:
            for face, ask in FACES.items():
                figures[f"{name}, {face}"] = ask(port, work)
            if name == "small":
                figures |= open_all(port)
    return figures | import_all()


def main() -> None:
    rounds = [run_round() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)]
    for name in rounds[0]:
        cpu, wall = (median(figures[name][index] for figures in rounds) for index in range(2))
        print(f"{name:45} {cpu:10.1f} {wall:10.1f}")


if __name__ == "__main__":
    main()
