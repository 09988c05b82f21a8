"""A run without Spark, as a process: it has batches that take a moment, and obeys commands. Ends when it is stopped.

Arguments: the bootstrap servers, the run's name, and how long a batch takes, in seconds.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

from penstock.core.clock import SystemClock
from penstock.runs.lifecycle import Action, Fact
from penstock.runs.link import KafkaLink
from penstock.runs.publisher import Heartbeat, Identity, RunPublisher, new_run_id
from penstock.runs.records import Graph, GraphNode, PartFigures
from penstock.runs.status import RunStatus
from penstock.runs.topics import RunTopics

# Quick, so that a test need not wait twenty seconds to see a run lost.
HEARTBEAT = Heartbeat(every_ms=300, lost_after_ms=1500)


class FakeRun:
    def __init__(self, bootstrap: str, name: str, batch_s: float) -> None:
        self._batch_s = batch_s
        self._batches = 0
        self._is_held = False
        self._stopping, self._restarting = threading.Event(), threading.Event()
        clock = SystemClock()
        actions = {
            Action.HOLD: self._hold,
            Action.RELEASE: self._release,
            Action.STOP: self._stopping.set,
            Action.RESTART: self._restarting.set,
        }
        self._status = RunStatus(actions, clock)
        run = new_run_id(name)
        graph = Graph(
            run,
            (GraphNode("in", "source", "topic in"), GraphNode("out", "sink", "topic out", "main")),
            (("in", "out"),),
        )
        identity = Identity(run, "pipeline", name, socket.gethostname(), os.getpid(), "0", clock.now_ms())
        link = KafkaLink({"bootstrap.servers": bootstrap}, RunTopics())
        self._publisher = RunPublisher(identity, self._status, self._figures, graph, link, HEARTBEAT)

    def _hold(self) -> None:
        self._is_held = True

    def _release(self) -> None:
        self._is_held = False

    def _figures(self) -> tuple[PartFigures, ...]:
        rows = 10 * self._batches
        return (PartFigures("main", self._batches - 1, round(1000 * self._batch_s), rows, rows, 5),)

    def run(self) -> None:
        self._publisher.start()
        self._status.note(Fact.STARTED)
        while not self._stopping.wait(self._batch_s):
            if self._restarting.is_set():
                self._restarting.clear()
                self._batches = 0
                self._is_held = False
                self._status.note(Fact.STARTED)
            if self._is_held:
                self._status.note(Fact.RESTED)
            else:
                self._batches += 1
        self._status.note(Fact.ENDED)
        self._publisher.close()


if __name__ == "__main__":
    FakeRun(sys.argv[1], sys.argv[2], float(sys.argv[3])).run()
