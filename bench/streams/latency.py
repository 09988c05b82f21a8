"""A steady load of bids, and when the results could be read by a reader of committed records."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer

from bench.errors import BenchError
from bench.loads import percentile
from bench.streams.events import BID

BIDDERS = 10_000
SLICE_S = 0.02
READ_AT_ONCE = 1000
FIRST_RESULT_S = 180.0


@dataclass(slots=True)
class Load:
    """`rate` bids a second, on a thread of its own; `at` of a bid is when it was made, in milliseconds."""

    bootstrap: str
    rate: int
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="bids", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join(30)

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, "linger.ms": 2})
        number, began = 0, time.monotonic()
        while not self._ending.is_set():
            due = int((time.monotonic() - began) * self.rate)
            while number < due:
                bidder = str(number * 7919 % BIDDERS)
                at = time.time_ns() // 1_000_000
                value = {"id": str(number), "auction": number, "bidder": bidder, "price": number, "at": at}
                producer.produce(BID, json.dumps(value).encode(), str(number).encode())
                number += 1
            producer.poll(0)
            time.sleep(SLICE_S)
        producer.flush(10)


def measure(bootstrap: str, output: str, rate: int, warm_s: float, seconds: float) -> dict[str, float]:
    """Milliseconds between a bid and the first result that has it, of results that come after the warm-up."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{output}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "latest",
            "log_level": 0,
        }
    )
    reader.subscribe([output])
    load = Load(bootstrap, rate)
    load.start()
    try:
        _first(reader)
        _gather(reader, warm_s)
        found = sorted(_gather(reader, seconds))
    finally:
        load.stop()
        reader.close()
    if not found:
        raise BenchError(f"no result came within {seconds:.0f} s")
    return {"p50": percentile(found, 50), "p99": percentile(found, 99), "results": len(found) / seconds}


def _first(reader: Consumer) -> None:
    deadline = time.monotonic() + FIRST_RESULT_S
    while time.monotonic() < deadline:
        if reader.consume(1, timeout=0.5):
            return
    raise BenchError(f"no result came within {FIRST_RESULT_S:.0f} s")


def _gather(reader: Consumer, seconds: float) -> list[int]:
    found: list[int] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        messages = reader.consume(1, timeout=0.1) + reader.consume(READ_AT_ONCE, timeout=0)
        now = time.time_ns() // 1_000_000
        found += [now - int(json.loads(each.value() or b"{}")["at"]) for each in messages if each.error() is None]
    return found
