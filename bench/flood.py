"""A client that produces at a steady, high rate, in a process of its own: `python -m bench.flood HOST PORT TOPIC`.

Prints a line when it begins, ends when its standard input does, and then prints how many bytes it sent in how many
seconds. The batches are made once and sent over a bare socket, so that the client leaves the processors to others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

from bench.errors import BenchError
from bench.wire import RawConnection, produce_error, produce_request
from penstock.protocol.records import Record, build_batch
from penstock.testing.processes import ServerProcess

BYTES_PER_SECOND = 200_000_000
VALUE_BYTES = 1024
RECORDS_PER_BATCH = 256
IN_FLIGHT = 5
PATIENCE_S = 60.0


class Flood:
    """The process; it sends while the block runs."""

    def __init__(self, server: ServerProcess, topic: str) -> None:
        command = [sys.executable, "-m", "bench.flood", server.host, str(server.port), topic]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.megabytes_per_second = 0.0

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise BenchError("the client beside it did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            said, _ = self._process.communicate(timeout=PATIENCE_S)  # closes its standard input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise BenchError("the client beside it did not end") from None
        if error is None:
            if self._process.returncode != 0:
                raise BenchError("the client beside it failed")
            sent = json.loads(said)
            self.megabytes_per_second = sent["bytes"] / sent["seconds"] / 1e6


def batches_due(elapsed_s: float, sent: int, batch_bytes: int) -> int:
    """How many batches are late by the clock."""
    return int(elapsed_s * BYTES_PER_SECOND / batch_bytes) - sent


def send(connection: RawConnection, topic: str, ending: threading.Event) -> tuple[int, float]:
    """Bytes sent, and the seconds it took."""
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([Record(None, bytes(VALUE_BYTES), timestamp=now_ms) for _ in range(RECORDS_PER_BATCH)])
    request = produce_request(topic, 0, batch)
    sent = on_the_way = 0
    begun = time.monotonic()
    while not ending.is_set():
        if batches_due(time.monotonic() - begun, sent, len(batch)) <= 0:
            time.sleep(len(batch) / BYTES_PER_SECOND)
            continue
        if on_the_way == IN_FLIGHT:
            on_the_way -= _receive(connection, topic)
        connection.send(request)
        sent, on_the_way = sent + 1, on_the_way + 1
    while on_the_way:
        on_the_way -= _receive(connection, topic)
    return sent * len(batch), time.monotonic() - begun


def _receive(connection: RawConnection, topic: str) -> int:
    responses = connection.receive()
    if error := next((found for each in responses if (found := produce_error(each, topic))), 0):
        raise BenchError(f"a produce was answered with error {error}")
    return len(responses)


def main(arguments: list[str]) -> int:
    host, port, topic = arguments
    ending = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ending.set()

    threading.Thread(target=await_end, daemon=True).start()
    print("begun", flush=True)
    with RawConnection(host, int(port)) as connection:
        size, seconds = send(connection, topic, ending)
    print(json.dumps({"bytes": size, "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
