"""Publishes a run's state to the cluster, with a heartbeat every few seconds and at once after a change, and hands the
run its commands. A thread of its own; the run's threads never wait for a broker here.

Rules:
- A run runs whether or not it can be seen. A fault is logged once, until the publisher works again.
- Only the run writes its own records. A run that starts also writes tombstones for runs that have ended long ago.
- No sender can address a run before the run reads commands: the run writes its first record after it knows its place in
  the commands' topic.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.client.retries import SYSTEM_CHANCE
from penstock.core.clock import Clock, SystemClock
from penstock.core.time.backoff import Backoff, Pauses
from penstock.runs.lifecycle import is_for
from penstock.runs.link import Link, LinkError
from penstock.runs.overview import DEFAULT_LOST_AFTER_MS, plan_forgetting
from penstock.runs.rates import RateWindow
from penstock.runs.records import Graph, PartFigures, RunRecord, encode_graph, encode_run, key_of
from penstock.runs.status import RunStatus

logger = logging.getLogger(__name__)

# Often enough that a pause of two beats is no news, seldom enough that a hundred runs are nothing to a broker.
HEARTBEAT_MS: Final = 3000
# A change is published within this time, and a command obeyed at once: the wait ends with its record.
_TICK_S: Final = 0.1
_BACKOFF: Final = Backoff(1.0, 30.0)
# The last record of a run is worth waiting for; a broker that is gone is not worth more.
_LAST_RECORD_S: Final = 3.0
# Above what the thread may be busy with when the run ends: a connection under way, reading, the last record.
_JOIN_S: Final = 10.0


def new_run_id(name: str, token: Callable[[int], str] = secrets.token_hex) -> str:
    return f"{name}-{token(4)}"


@dataclass(frozen=True, slots=True)
class Identity:
    """The fields that every record of a run shares."""

    run: str
    type: str
    name: str
    host: str
    pid: int
    version: str
    started_ms: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    every_ms: int = HEARTBEAT_MS
    lost_after_ms: int = DEFAULT_LOST_AFTER_MS


class RunPublisher:
    def __init__(
        self,
        identity: Identity,
        status: RunStatus,
        figures: Callable[[], tuple[PartFigures, ...]],
        graph: Graph,
        link: Link,
        heartbeat: Heartbeat = Heartbeat(),  # noqa: B008  # frozen
        clock: Clock | None = None,
    ) -> None:
        self._identity = identity
        self._status = status
        self._figures = figures
        self._graph = graph
        self._sent_graph: Graph | None = None
        self._link = link
        self._heartbeat = heartbeat
        self._clock = clock or SystemClock()
        self._rows_in, self._rows_out = RateWindow(), RateWindow()
        self._told = -1  # the status' changes as of the last record
        self._next_ms = 0  # when the next heartbeat is due
        self._trouble = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"penstock-run-{identity.run}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def draw(self, graph: Graph) -> None:
        """Replaces the drawing of the run, once more of it is known; from any thread."""
        self._graph = graph

    def close(self) -> None:
        """After the run has ended: its last record is on its way to the topic, or cannot be brought there."""
        self._closing.set()
        self._thread.join(_JOIN_S)

    def _work(self) -> None:
        try:
            if self._connect():
                self._send_all()
                self._forget_old_runs()
                while not self._closing.is_set():
                    self.turn(_TICK_S)
                self._send_record()
            self._link.close(_LAST_RECORD_S)
        except Exception:
            logger.exception("the run %s goes on, and can no longer be seen", self._identity.run)

    def _connect(self) -> bool:
        """Whether the topics can be used before the run ends."""
        pauses = Pauses(_BACKOFF, SYSTEM_CHANCE)
        while True:
            try:
                self._link.connect()
            except LinkError as error:
                self._tell(str(error))
                if error.is_final or self._closing.wait(pauses.next_s()):
                    return False
            else:
                self._tell("")
                return True

    def turn(self, wait_s: float) -> None:
        """Sends records that are due, waits for commands and obeys them."""
        if self._graph != self._sent_graph:
            self._send_graph()
        if self._status.changes != self._told or self._clock.monotonic_ms() >= self._next_ms:
            self._send_record()
        for received in self._link.receive(wait_s):
            command, identity = received.command, self._identity
            if is_for(command, identity.run, identity.type, identity.name):
                decision = self._status.obey(command, received.age_ms)
                if decision is not None:
                    told = (identity.run, command.verb, command.by or "somebody", decision.outcome, decision.text)
                    logger.info("%s: %s by %s is %s: %s", *told)
        self._tell(self._link.trouble)

    def _send_all(self) -> None:
        self._send_record()
        self._send_graph()

    def _send_graph(self) -> None:
        graph = self._graph
        self._link.send(key_of(graph), encode_graph(graph))
        self._sent_graph = graph

    def _send_record(self) -> None:
        self._told = self._status.changes
        self._next_ms = self._clock.monotonic_ms() + self._heartbeat.every_ms
        record = self.record()
        self._link.send(key_of(record), encode_run(record))

    def record(self) -> RunRecord:
        identity, status, parts = self._identity, self._status.view, self._figures()
        now_ms = self._clock.monotonic_ms()
        return RunRecord(
            run=identity.run,
            type=identity.type,
            name=identity.name,
            state=status.state,
            host=identity.host,
            pid=identity.pid,
            version=identity.version,
            started_ms=identity.started_ms,
            changed_ms=status.changed_ms,
            written_ms=self._clock.now_ms(),
            heartbeat_every_ms=self._heartbeat.every_ms,
            lost_after_ms=self._heartbeat.lost_after_ms,
            restarts=status.restarts,
            rows_in_per_s=self._rows_in.per_second(sum(part.rows_in for part in parts), now_ms),
            rows_out_per_s=self._rows_out.per_second(sum(part.rows_out for part in parts), now_ms),
            lag=sum(part.lag for part in parts),
            parts=parts,
            error=status.error,
            acknowledgements=status.acknowledgements,
        )

    def _forget_old_runs(self) -> None:
        try:
            overview = self._link.read_overview()
        except LinkError as error:
            logger.debug("old runs are not forgotten this time: %s", error)
            return
        for key in plan_forgetting(overview, overview.brokers_time(self._clock.now_ms())):
            self._link.send(key.encode(), None)

    def _tell(self, trouble: str) -> None:
        """Once when it begins and once when it is over, however the words change in between."""
        if trouble and not self._trouble:
            logger.warning("the run %s cannot be seen by others, and goes on: %s", self._identity.run, trouble)
        elif self._trouble and not trouble:
            logger.info("the run %s can be seen again", self._identity.run)
        self._trouble = trouble
