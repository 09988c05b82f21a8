"""One run over the readers of the picture, in alternating rounds, on one Penstock broker."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from apache_kafka.jars import PeerUnavailableError, fetch_jars
from bench.admin.contents import SESSIONS, filled
from bench.admin.readers import Counts, count_ours, read_confluent, record, seconds_of, seconds_of_tools, send_bare
from bench.admin.rows import ADMIN_ROWS
from bench.contenders import PENSTOCK, CpuMeter
from bench.errors import BenchError
from bench.gathering import Gathering, alternate
from bench.loads import PATIENCE_S, Figures, Scale
from penstock.admin import connect
from penstock.processes.server_process import find_free_port
from penstock.testing.processes import ServerProcess

ADMIN_NAMES = ("admin-picture",)
BEGIN, END = "<!-- admin: begin -->", "<!-- admin: end -->"
CONFLUENT = "confluent-kafka"
# Pictures and bare requests in turns, of which the medians are compared in each round.
REPETITIONS = 5

_REQUESTS = re.compile(r"^kafka_network_requestmetrics_requests_total\{[^}]*\} (\S+)$", re.MULTILINE)


class AdminRun:
    """Figures gather in `result`."""

    def __init__(self, scale: Scale, rounds: int, directory: Path) -> None:
        self.partitions = scale.partitions_asked_for
        self.rounds = rounds
        self.directory = directory
        self.metrics_port = find_free_port()
        title = "a picture of 1,000 topics, 10,000 partitions and 500 groups"
        self.result = Gathering((PENSTOCK.name, CONFLUENT), ADMIN_ROWS, title, (BEGIN, END), CONFLUENT)

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        metrics = {"penstock.metrics.listen": f"127.0.0.1:{self.metrics_port}"}
        broker = PENSTOCK.make(self.directory / "admin-broker", {**SESSIONS, **metrics})
        with broker, filled(broker, self.partitions):
            self._count_requests()  # the first look at the numbers loads what they need
            measures = ((PENSTOCK.name, self._measure_ours), (CONFLUENT, self._measure_confluent))
            for number in range(self.rounds):
                for name, measure in alternate(measures, number):
                    self.result.keep(name, measure(broker), number)
            self._measure_tools(broker)

    def _measure_ours(self, broker: ServerProcess) -> Figures:
        with connect([(broker.host, broker.port)], timeout_s=PATIENCE_S) as admin:
            counts: list[Counts] = []
            figures = self._measured("picture", broker, lambda: counts.append(count_ours(admin.read())))
            self._check(counts[0])
            requests = record(admin)
            again, bare = Repeated(broker, admin.read), Repeated(broker, lambda: send_bare(admin, requests))
            for _ in range(REPETITIONS):
                again.run()
                bare.run()
        return {
            **figures,
            **again.figures("picture-again"),
            **bare.figures("picture-bare"),
            "picture-times": median(again.seconds) / median(bare.seconds),
            "picture-cpu-times": median(again.cpu_seconds) / median(bare.cpu_seconds),
        }

    def _measure_confluent(self, broker: ServerProcess) -> Figures:
        counts: list[Counts] = []
        figures = self._measured("picture", broker, lambda: counts.append(read_confluent(broker)))
        self._check(counts[0])
        return figures

    def _measure_tools(self, broker: ServerProcess) -> None:
        try:
            fetch_jars()
        except PeerUnavailableError as error:
            print(f"Kafka's tools are left out: {error}", flush=True)
            return
        seconds_of_tools(broker)  # what runs first loads classes
        seconds: list[float] = []
        figures = self._measured("tools", broker, lambda: seconds.append(seconds_of_tools(broker)))
        self.result.keep(PENSTOCK.name, {**figures, "tools": seconds[0]})

    def _measured(self, key: str, broker: ServerProcess, work: Callable[[], object]) -> Figures:
        meter, before = CpuMeter(), self._count_requests()
        with meter.running(broker):
            seconds = seconds_of(work)
        return {key: seconds, f"{key}-requests": self._count_requests() - before, f"{key}.cpu": meter.seconds}

    def _count_requests(self) -> float:
        """What the broker has been asked since its start, as it counts itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=PATIENCE_S) as answer:
            return count_requests(answer.read().decode())

    def _check(self, counts: Counts) -> None:
        wanted = self.partitions
        if min(counts.partitions, counts.first_offsets, counts.last_offsets) != wanted or not counts.members:
            raise BenchError(f"the picture is not that of {wanted} partitions: {counts}")


class Repeated:
    """The times that some work takes, and the CPU of this process and the broker for it."""

    def __init__(self, broker: ServerProcess, work: Callable[[], object]) -> None:
        self._broker = broker
        self._work = work
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    def run(self) -> None:
        meter, before = CpuMeter(), time.process_time()
        with meter.running(self._broker):
            self.seconds.append(seconds_of(self._work))
        self.cpu_seconds.append(meter.seconds + time.process_time() - before)

    def figures(self, key: str) -> Figures:
        return {key: median(self.seconds), f"{key}.cpu": median(self.cpu_seconds)}


def count_requests(metrics: str) -> float:
    return sum(map(float, _REQUESTS.findall(metrics)))
