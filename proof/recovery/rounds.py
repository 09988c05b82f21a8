"""Measures how long every partition of a cluster is without acks=all writes when a broker goes.

    python -m proof recovery --tries 50 --case kill-leader kill-controller --seed 7

Each try begins with a cluster in which all replicas are in sync and every partition is written to by librdkafka and by
the probe. Then one broker is hurt. A time begins with the fault and ends with the acknowledgement of a record, handed
over after the fault, for the last of the partitions.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from proof.frame import Task
from proof.recovery.cases import CASES, CASES_BY_NAME, Case, Layout
from proof.recovery.probe import Probe
from proof.recovery.stage import NODES, PATIENCE_S, Stage
from proof.recovery.writer import Writer

# Before the fault: at most so long, so that faults do not come in step with what clients and brokers do by the clock.
_MOST_LEAD_TIME_S = 0.2
_AFTER_STOP_S = 0.3
_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Try:
    """Seconds; None where it did not recover."""

    client_s: float | None
    broker_s: float | None
    delivery_errors: Counter[str]
    wire_errors: Counter[str]
    client_counts: Counter[str]


@dataclass(slots=True)
class CaseReport:
    case: Case
    tries: list[Try] = field(default_factory=list)
    load: tuple[float, float] = (0.0, 0.0)  # the load average before and after

    @property
    def is_sound(self) -> bool:
        return bool(self.tries) and all(
            each.client_s is not None and each.broker_s is not None and not each.delivery_errors for each in self.tries
        )

    @property
    def is_within_goal(self) -> bool:
        times = [each.client_s for each in self.tries if each.client_s is not None]
        goal = self.case.goal
        if len(times) < len(self.tries) or not times:
            return False
        return max(times) <= goal.worst_s and (goal.median_s is None or statistics.median(times) <= goal.median_s)

    def __str__(self) -> str:
        measure = "longest wait of a record" if self.case.is_pause else "time to recover"
        verdict = "met" if self.is_within_goal else "MISSED"
        load = f"load average {self.load[0]:.1f} to {self.load[1]:.1f}"
        lines = [
            f"{self.case.name}: {self.case.what}; {measure} in {len(self.tries)} tries",
            f"  goal        {self.case.goal}: {verdict} ({load})",
            f"  librdkafka  {_describe([each.client_s for each in self.tries])}",
            f"  brokers     {_describe([each.broker_s for each in self.tries])}",
        ]
        for title, counts in (
            ("told to the application", _sum(each.delivery_errors for each in self.tries)),
            ("on the wire (probe)", _sum(each.wire_errors for each in self.tries)),
            ("inside librdkafka", _sum(each.client_counts for each in self.tries)),
        ):
            shown = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
            lines.append(f"  errors {title}: {shown}")
        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    cases: list[CaseReport]

    @property
    def is_sound(self) -> bool:
        return all(each.is_sound for each in self.cases)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.cases)


def run(task: Task) -> Report:
    names: Sequence[str] = task.options.get("case") or [case.name for case in CASES if not case.is_slow]
    chance = Random(task.seed)
    reports = []
    # A case with very many partitions would slow the others down: it has a cluster of its own.
    small = [name for name in names if name != "kill-thousand"]
    for group in (small, [name for name in names if name not in small]):
        if group:
            with Stage(task.scratch / group[0]) as stage:
                reports += [_run_case(stage, CASES_BY_NAME[name], task, chance) for name in group]
    return Report(reports)


def _run_case(stage: Stage, case: Case, task: Task, chance: Random) -> CaseReport:
    report = CaseReport(case)
    before = os.getloadavg()[0]
    for number in range(1, task.rounds + 1):
        tried = _try(stage, case, chance)
        report.tries.append(tried)
        task.say(f"{case.name} {number}: librdkafka {_show(tried.client_s)}, brokers {_show(tried.broker_s)}")
    report.load = before, os.getloadavg()[0]
    return report


def _try(stage: Stage, case: Case, chance: Random) -> Try:
    stage.restore()
    controller = stage.cluster.controller_id()
    victim = controller if case.is_controller else chance.choice([node for node in NODES if node != controller])
    layout = case.layout(victim)
    if layout.topic not in _topics(stage):
        stage.create(layout.topic, layout.assignment)
    stage.settle(layout.topic)
    writer, probe = _clients(stage, layout, case)
    writer.start()
    probe.start()
    try:
        _wait(lambda: writer.is_warm and probe.is_warm)
        time.sleep(chance.uniform(0, _MOST_LEAD_TIME_S))
        return _measure(stage, case, victim, writer, probe)
    finally:
        writer.stop()
        probe.stop()
        if probe.failure is not None:
            raise probe.failure


def _measure(stage: Stage, case: Case, victim: int, writer: Writer, probe: Probe) -> Try:
    if case.is_pause:
        writer.begin()
        probe.begin()
        case.hurt(stage, victim)
        time.sleep(_AFTER_STOP_S)
        is_over = _wait(lambda: writer.has_recovered and probe.has_recovered)
        client_s, broker_s = (writer.longest_s, probe.longest_s) if is_over else (None, None)
    else:
        start = time.monotonic()
        case.hurt(stage, victim)
        writer.begin()
        probe.begin()
        _wait(lambda: writer.has_recovered and probe.has_recovered)
        client_s = max(writer.first_acks.values()) - start if writer.has_recovered else None
        broker_s = max(probe.first_acks.values()) - start if probe.has_recovered else None
    counts = writer.statistics + writer.client_errors
    return Try(client_s, broker_s, writer.delivery_errors, probe.errors, counts)


def _clients(stage: Stage, layout: Layout, case: Case) -> tuple[Writer, Probe]:
    leaders = stage.leaders(layout.topic, NODES[0])
    servers = stage.cluster.bootstrap_servers
    writer = Writer(servers, layout.topic, sorted(leaders), layout.interval_s, case.settings)
    probed = {each: leader for each, leader in leaders.items() if each % layout.probed == 0}
    return writer, Probe(stage.addresses, layout.topic, probed)


def _topics(stage: Stage) -> set[str]:
    return {topic for state in stage.cluster.states().values() if state is not None for topic in state.topics}


def _wait(is_done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _sum(counts: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total += each
    return total


def _show(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.3f} s"


def _describe(times: Sequence[float | None]) -> str:
    known = sorted(each for each in times if each is not None)
    if not known:
        return "never"
    everything = " ".join([*(f"{each:.3f}" for each in known), *("never" for each in times if each is None)])
    return f"median {statistics.median(known):.3f} s, worst {known[-1]:.3f} s; all: {everything}"
