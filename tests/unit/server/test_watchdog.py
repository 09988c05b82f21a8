"""The watchdog counts what held the loop, not what the machine withheld, and names it."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock.broker.broker import Broker
from penstock.broker.dispatch import Api, Dispatcher
from penstock.broker.session import RequestContext, Session
from penstock.broker.slices import Slices
from penstock.core.metrics.counters import LoopMetrics, RequestMetrics
from penstock.protocol.codec import encode
from penstock.protocol.framing import encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.server.monitoring.watchdog import Culprit, SchedStat, Watchdog, describe
from tests.waiting import until


class Loop(asyncio.AbstractEventLoop):
    """Keeps the one timer that is set."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.fire: Callable[[], object] = lambda: None

    def call_later(self, delay, callback, *args, context=None):  # type: ignore[no-untyped-def, override]
        self.delays.append(delay)
        self.fire = lambda: callback(*args)
        return

    def get_debug(self) -> bool:
        return False


class Rig:
    def __init__(self) -> None:
        self.metrics = LoopMetrics()
        self.now = self.waited = 100.0
        self.requests = 0
        self.loop = Loop()  # type: ignore[abstract]
        self.watchdog = Watchdog(self.metrics, lambda: self.requests, lambda: self.now, lambda: self.waited)
        self.watchdog.begin(self.loop)

    def beat(self, late_ms: float, waited_ms: float = 0.0, *samples: Culprit) -> None:
        self.watchdog.samples += samples
        self.now += self.loop.delays[-1] + late_ms / 1000
        self.waited += waited_ms / 1000
        self.loop.fire()


def test_a_slice_counts_above_each_threshold_when_it_is_longer() -> None:
    rig = Rig()
    for late_ms in (0.1, 9, 11, 150, 1_200):
        rig.beat(late_ms)
    assert rig.metrics.slices == {"10": 3, "100": 2, "1000": 1}


def test_nothing_counts_when_the_thread_waited_for_a_core() -> None:
    rig = Rig()
    rig.beat(400, waited_ms=395)
    assert rig.metrics.slices == {"10": 0, "100": 0, "1000": 0}
    rig.beat(400, waited_ms=200)
    assert rig.metrics.slices == {"10": 1, "100": 1, "1000": 0}


def test_beats_are_rarer_when_no_request_comes() -> None:
    rig = Rig()
    rig.requests += 1
    rig.beat(0)
    rig.beat(0)
    assert rig.loop.delays[-2] < rig.loop.delays[-1]


def test_the_line_names_what_most_samples_saw_when_the_loop_was_held(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    chore, other = Culprit("chore retention", "", "unlink (files.py:1)"), Culprit("request Fetch", "c", "x (y.py:2)")
    with caplog.at_level(logging.WARNING, "penstock.server.watchdog"):
        rig.beat(60, 0, other)
        assert caplog.records == []
        rig.beat(150, 0, other, chore, chore)
        rig.beat(150, 0, chore)
    (record,) = caplog.records
    assert vars(record)["by"] == "chore retention"
    assert vars(record)["held_ms"] == 150
    assert vars(record)["stack"] == "unlink (files.py:1)"


def test_a_request_is_named_with_its_client_when_its_handler_holds_the_loop() -> None:
    seen: list[Culprit] = []

    def handler(broker: Broker, context: RequestContext, request: Message) -> Message:
        seen.append(describe(sys._getframe(), "chore retention"))
        return MetadataResponse()

    api: Api[Any] = Api(MetadataRequest, handler, 0, 1, 0)
    slices = Slices(lambda: 0.0)
    dispatcher = Dispatcher(cast("Broker", object()), {MetadataRequest.API_KEY: api}, RequestMetrics(), slices)
    frame = encode_request_header(MetadataRequest.API_KEY, 1, 7, "reporting", False) + encode(MetadataRequest(), 1)
    dispatcher.handle(Session("1-2", "127.0.0.1", "PLAINTEXT"), frame)
    (culprit,) = seen
    assert culprit.kind == "request Metadata"
    assert culprit.client.startswith("reporting 1-2")
    assert culprit.stack.startswith("test_a_request_is_named")


def test_a_chore_is_named_when_its_task_holds_the_loop() -> None:
    assert describe(sys._getframe(), "chore retention").kind == "chore retention"


def test_the_innermost_function_is_named_when_nothing_better_is_known() -> None:
    culprit = describe(sys._getframe(), "Task-1")
    assert culprit.kind == "test_the_innermost_function_is_named_when_nothing_better_is_known"


def test_the_wait_for_a_core_is_told_when_the_system_knows_it() -> None:
    stat = SchedStat()
    first = stat.run_delay()
    assert 0 <= first <= stat.run_delay()
    stat.close()
    assert stat.run_delay() == 0


def test_nothing_of_a_request_stays_when_the_watchdog_has_seen_it_hold_the_loop() -> None:
    """The frame it had looked at kept all that a request held, 90 MB of a group's member, until the next stall."""

    class Held:
        pass

    def hold_the_loop(watchdog: Watchdog) -> weakref.ref[Held]:
        held = Held()
        deadline = time.monotonic() + 10
        while not watchdog.samples and time.monotonic() < deadline:
            pass
        assert watchdog.samples
        return weakref.ref(held)

    async def run() -> None:
        watchdog = Watchdog(LoopMetrics(), lambda: 0)
        watchdog.start()
        try:
            held = hold_the_loop(watchdog)
            await until(lambda: held() is None)  # the thread may be looking just now
            assert held() is None
        finally:
            watchdog.stop()

    asyncio.run(run())
