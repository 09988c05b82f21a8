"""Nothing holds the event loop for long, and when something does, the watchdog says so."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from bench.preload import preload_uniformly
from penstock.core.loops import new_event_loop
from penstock.core.metrics.counters import LoopMetrics
from penstock.processes.server_process import pause_process
from penstock.server.monitoring.watchdog import STOOD_STILL, Watchdog
from penstock.testing.processes import find_free_port
from tests.clients.confluent import admin_of, create_topic, produce, producer_of
from tests.clients.support import eventually
from tests.integration.conftest import StartBroker

LARGE_RECORDS = 300_000  # of 1 KiB


def slices_above(port: int, threshold_ms: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    sample = f'penstock_loop_slices_total{{above_ms="{threshold_ms}"}} '
    (value,) = [line.removeprefix(sample) for line in lines if line.startswith(sample)]
    return int(float(value))


def test_no_slice_is_above_100_ms_when_a_large_topic_is_deleted(start_broker: StartBroker) -> None:
    """A client of another topic waited 315 ms while the files were removed."""
    port = find_free_port()
    config = {"log.segment.delete.delay.ms": "0", "penstock.metrics.listen": f"127.0.0.1:{port}"}
    broker = start_broker(config=config)
    for name in ("large", "small"):
        create_topic(broker.bootstrap_servers, name=name)
    preload_uniformly(broker, "large", 1024, LARGE_RECORDS, time.time_ns() // 1_000_000)
    before = slices_above(port, 100)
    producer = producer_of(broker.bootstrap_servers)
    admin_of(broker.bootstrap_servers).delete_topics(["large"])["large"].result(20)

    def is_gone() -> bool:
        produce(producer, "small", [b"x"] * 10)
        return not list(broker.data_dir.glob("large-*"))

    eventually(is_gone, "the files of the topic are removed")
    assert slices_above(port, 100) == before, broker.read_log()


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


def test_a_slice_is_counted_and_named_when_something_holds_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    metrics = LoopMetrics()

    async def run() -> None:
        watchdog = Watchdog(metrics, lambda: 0)
        watchdog.start()
        await asyncio.sleep(0.1)
        hold_the_loop(0.3)
        await asyncio.sleep(0.1)
        watchdog.stop()

    with caplog.at_level(logging.WARNING, "penstock.server.watchdog"), asyncio.Runner(loop_factory=new_event_loop) as r:
        r.run(run())
    assert metrics.slices["100"] == 1
    assert metrics.slices["1000"] == 0
    (record,) = caplog.records
    assert "hold_the_loop" in vars(record)["by"]
    assert 200 < vars(record)["held_ms"] <= 320


STANDING_STILL = """
import asyncio, logging, sys
from penstock.core.metrics.counters import LoopMetrics
from penstock.server.monitoring.watchdog import STOOD_STILL, Watchdog

async def run():
    metrics = LoopMetrics()
    watchdog = Watchdog(metrics, lambda: 0)
    watchdog.start()
    await asyncio.sleep(0.3)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    watchdog.stop()
    print(metrics.slices["1000"], flush=True)

logging.basicConfig(stream=sys.stdout, format="%(message)s")
asyncio.run(run())
"""


def test_nobody_is_blamed_when_the_whole_process_stood_still() -> None:
    """After SIGCONT a request or a chore was named that had done nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", STANDING_STILL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            assert process.poll() is None
        pause_process(process.pid)
        time.sleep(2)
        process.send_signal(signal.SIGCONT)
        lines = [process.stdout.readline()]
        output, _ = process.communicate("\n", timeout=60)
        lines += output.splitlines(keepends=True)
    assert f"{STOOD_STILL}\n" in lines
    assert lines[-1] == "0\n"
