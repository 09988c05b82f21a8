"""A watchdog over the event loop: counts what held the loop too long, and says what that was.

One loop serves every client, so whatever holds the loop keeps all of them waiting. The rules:

- The loop beats: a timer of a few milliseconds. How late a beat comes is how long the loop was held. A beat that is
  late by a threshold counts, so a slice is never exaggerated; it may be missed by up to one interval.
- Time in which the loop's thread waited for a core does not count: a busy machine is not a fault of the broker. The
  kernel keeps that time for each thread (schedstat). Time in a system call, or waiting for Python's lock, does count.
- Nor does time in which the whole process stood still, by SIGSTOP or with its machine. That is what it was when neither
  the loop nor the watchdog's thread ran, and the process used no time of any core. The log says so, and names no cause.
- A thread looks at the beats from outside. While one is overdue, the thread samples the stack of the loop's thread; the
  beat that comes at last writes a line with what the samples have in common.
- Nothing is done per request. Beats and looks cost 0.3 % of a core, busy (200 beats a second in a loop that runs
  anyway) or idle (20 beats, and each has to wake the loop).

ADR 14 has the figures and what else was tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

from penstock.broker.dispatch import Dispatcher
from penstock.broker.session import Session, shorten
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.metrics.counters import LoopMetrics

logger = logging.getLogger("penstock.server.watchdog")

# Half of the shortest slice that is counted.
_BUSY_BEAT_SECONDS = 0.005
# Nobody waits for an idle loop, except for the next request: its wait may be seen as this much shorter.
_IDLE_BEAT_SECONDS = 0.05
# A slice that is named in the log lasts 100 ms or more. One of 120 ms is looked at for certain.
_LOOK_SECONDS = 0.1
_OVERDUE_SECONDS = 0.02
# A line in the log is for what an operator would act on. The bench looks for the line.
_NAMED_MS = 100
HELD = "the event loop was held; every client waited"
STOOD_STILL = "the process stood still: it was stopped, or its machine was"
# The rest may be something else: the thread looks from time to time, and whatever was under way goes on.
_STANDSTILL_SHARE = 0.75
_MAX_SAMPLES = 20
_SHOWN_FRAMES = 8

# Frames of a request, by the code that runs in them.
_REQUEST_CODES = {Dispatcher.handle.__code__, Dispatcher._wait.__code__}


class Culprit(NamedTuple):
    """What the loop was doing. `kind` is one of a few words and names of ours; `stack` is the innermost frame first."""

    kind: str
    client: str
    stack: str


# The watchdog's thread got no turn meanwhile: something held Python's lock as well.
_UNSEEN = Culprit("unknown", "", "")


class Watchdog:
    """`start` and `stop` run on the loop that is watched."""

    def __init__(
        self,
        metrics: LoopMetrics,
        request_count: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
        run_delay: Callable[[], float] | None = None,
        cpu_time: Callable[[], float] = time.process_time,
    ) -> None:
        """`request_count` goes up when the loop has something to do; `run_delay` tells the seconds that the loop's
        thread has waited for a core, `cpu_time` those that the process has used.
        """
        self._metrics = metrics
        self._request_count = request_count
        self._now = now
        self._run_delay = run_delay
        self._schedstat: SchedStat | None = None
        self._cpu_time = cpu_time
        self._due = self._waited = self._used = 0.0
        self.looked = self.longest_look = 0.0  # when the thread ran last; the longest time between two of its looks
        self._requests = -1
        self.samples: list[Culprit] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._log = RateLimitedLog(logger, Limiter(), lambda: int(now() * 1000))

    def start(self) -> None:
        if self._run_delay is None:
            self._schedstat = SchedStat()
            self._run_delay = self._schedstat.run_delay
        loop, thread_id = asyncio.get_running_loop(), threading.get_ident()
        self.begin(loop)
        self._thread = threading.Thread(
            target=self._watch, args=(loop, thread_id), name="penstock-watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()
        if self._schedstat is not None:
            self._schedstat.close()

    # ---- on the loop

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """The beats, without the thread that looks at them."""
        assert self._run_delay is not None
        self._waited = self._run_delay()
        self.looked = self._now()
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        requests = self._request_count()
        interval = _IDLE_BEAT_SECONDS if requests == self._requests else _BUSY_BEAT_SECONDS
        self._requests = requests
        self._used = self._cpu_time()
        self._due = self._now() + interval
        self._timer = loop.call_later(interval, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        """Costs 100 us with the wake-up of an idle loop, a few in a busy one."""
        assert self._run_delay is not None
        late = self._now() - self._due
        waited = self._run_delay()
        held_ms = (late - (waited - self._waited)) * 1000
        self._waited = waited
        samples, self.samples = self.samples, []
        if held_ms >= _NAMED_MS and self._stood_still(held_ms / 1000):
            self._log.once_per("standstill", logging.WARNING, STOOD_STILL, {"stopped_ms": round(held_ms)})
        else:
            self._metrics.count_slice(held_ms)
            if held_ms >= _NAMED_MS:
                self._name(held_ms, samples or [_UNSEEN])
        self.longest_look = 0.0
        self._schedule(loop)

    def _stood_still(self, held: float) -> bool:
        if self._thread is None:
            return False
        silent = max(self.longest_look, self._now() - self.looked)
        used = self._cpu_time() - self._used
        return silent >= held * _STANDSTILL_SHARE and used <= held * (1 - _STANDSTILL_SHARE)

    def _name(self, held_ms: float, samples: list[Culprit]) -> None:
        """The line comes when the loop runs again: what held the loop may have been what writes lines."""
        ((culprit, _),) = Counter(samples).most_common(1)
        fields: dict[str, object] = {"held_ms": round(held_ms), "by": culprit.kind}
        if culprit.client:
            fields["client"] = culprit.client
        fields["stack"] = culprit.stack
        self._log.once_per(culprit.kind, logging.WARNING, HELD, fields)

    # ---- in the thread

    def _watch(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            now = self._now()
            self.longest_look, self.looked = max(self.longest_look, now - self.looked), now
            if now - self._due > _OVERDUE_SECONDS and len(self.samples) < _MAX_SAMPLES:
                self._take_sample(loop, thread_id)

    def _take_sample(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        """A function of its own, so that its frame goes with it: a frame that stayed in a variable of the thread would
        keep everything that the request held, until the next sample.
        """
        frame = sys._current_frames().get(thread_id)
        if frame is not None:
            self.samples.append(describe(frame, _task_name(loop)))


def describe(frame: FrameType, task_name: str = "") -> Culprit:
    """What a stack is about: a request and its client, else a chore, else the innermost function."""
    shown: list[str] = []
    kind = client = ""
    step: FrameType | None = frame
    while step is not None:
        code = step.f_code
        if len(shown) < _SHOWN_FRAMES:
            shown.append(f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{step.f_lineno})")
        if code in _REQUEST_CODES:
            kind, client = _describe_request(step)
            break
        step = step.f_back
    if not kind:
        kind = task_name if task_name.startswith("chore ") else frame.f_code.co_qualname
    return Culprit(kind, client, " < ".join(shown))


def _describe_request(frame: FrameType) -> tuple[str, str]:
    known = frame.f_locals
    call, session = known.get("call"), known.get("session")
    api, context = (known.get("api"), known.get("context")) if call is None else (call.api, call.context)
    kind = f"request {api.name}" if api is not None else "a request"
    if context is not None:
        session = context.session
    client_id = f"{shorten(context.client_id)} " if context is not None and context.client_id else ""
    return kind, f"{client_id}{session}" if isinstance(session, Session) else ""


def _task_name(loop: asyncio.AbstractEventLoop) -> str:
    task = asyncio.current_task(loop)
    return task.get_name() if task is not None else ""


class SchedStat:
    """How long the calling thread has waited for a core, as Linux counts it; 0 where the system does not tell."""

    def __init__(self) -> None:
        self._fd = -1
        with contextlib.suppress(OSError):
            self._fd = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def run_delay(self) -> float:
        """Seconds. Costs 3 us."""
        if self._fd < 0:
            return 0.0
        return int(os.pread(self._fd, 64, 0).split()[1]) / 1e9

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
