"""Many schedules, one after the other or in several processes. What a seed does depends on nothing but the seed."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from proof.frame import Say, Task, say_nothing
from proof.simulation.cluster.plan import draw_cluster_plan
from proof.simulation.plan import Plan, draw_plan
from proof.simulation.schedule import Verdict
from proof.simulation.simulation import simulate

# How many schedules are left to garbage collection at once, and handed to a process at once.
_COLLECT_AFTER = 25
_SHARE = 50


@dataclass
class SimulationReport:
    seed: int
    brokers: int = 1
    schedules: int = 0
    steps: int = 0
    crashes: int = 0
    cleanings: int = 0
    seconds: float = 0.0
    failed_seeds: list[int] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)  # by seed: of all that happened

    @property
    def is_sound(self) -> bool:
        return not self.failed_seeds

    def __str__(self) -> str:
        rate = 60 * self.schedules / self.seconds if self.seconds else 0
        line = (
            f"seed {self.seed}: {self.schedules} schedules, {self.steps} requests, {self.crashes} crashes, "
            f"{self.cleanings} cleanings, {rate:.0f} schedules a minute, {len(self.failed_seeds)} failures"
        )
        return line if self.is_sound else f"{line}: seeds {self.failed_seeds[:20]}"

    def add(self, other: SimulationReport) -> None:
        self.schedules += other.schedules
        self.steps += other.steps
        self.crashes += other.crashes
        self.cleanings += other.cleanings
        self.failed_seeds += other.failed_seeds
        self.digests |= other.digests


def run_schedules(
    seed: int,
    count: int,
    say: Say = say_nothing,
    *,
    brokers: int = 1,
    is_verbose: bool = False,
    processes: int = 1,
    share: int = _SHARE,
) -> SimulationReport:
    """The schedules of the seeds from `seed` on. With several processes the same is said, a little later."""
    report = SimulationReport(seed, brokers)
    started = time.perf_counter()
    if processes == 1:
        _run_here(report, count, say, is_verbose)
    else:
        shares = [
            (first, min(share, seed + count - first), brokers, is_verbose) for first in range(seed, seed + count, share)
        ]
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context) as pool:
            for part, lines in pool.map(_run_share, shares):
                report.add(part)
                for text in lines:
                    say(text)
    report.seconds = time.perf_counter() - started
    return report


def _run_share(share: tuple[int, int, int, bool]) -> tuple[SimulationReport, list[str]]:
    seed, count, brokers, is_verbose = share
    report, lines = SimulationReport(seed, brokers), list[str]()
    _run_here(report, count, lines.append, is_verbose)
    return report, lines


def _run_here(report: SimulationReport, count: int, say: Say, is_verbose: bool) -> None:
    with _rare_collections() as collect:
        for seed in range(report.seed, report.seed + count):
            verdict = simulate(plan_of(seed, report.brokers))
            report.schedules += 1
            report.steps += verdict.requests
            report.crashes += verdict.crashes
            report.cleanings += verdict.cleanings
            report.digests[seed] = verdict.digest
            if is_verbose:
                say("\n".join(verdict.trace))
            if not verdict.is_sound:
                report.failed_seeds.append(seed)
                say(explain(verdict))
            if report.schedules % _COLLECT_AFTER == 0:
                collect()


@contextlib.contextmanager
def _rare_collections() -> Iterator[Callable[[], object]]:
    """A schedule is over before a collection finds anything: an eighth of its time was spent on looking."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield gc.collect
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def plan_of(seed: int, brokers: int) -> Plan:
    return draw_plan(seed) if brokers == 1 else draw_cluster_plan(seed, brokers)


def explain(verdict: Verdict) -> str:
    """Enough to see it again."""
    brokers = f" --brokers {verdict.plan.brokers}" if verdict.plan.brokers > 1 else ""
    return "\n".join(
        [
            *verdict.trace,
            f"seed {verdict.plan.seed} failed:",
            *(f"  {failure}" for failure in verdict.failures),
            f"again: python -m proof simulation --rounds 1 --seed {verdict.plan.seed}{brokers}",
        ]
    )


def run(task: Task) -> SimulationReport:
    options = task.options
    return run_schedules(
        task.seed,
        task.rounds,
        task.say,
        brokers=options["brokers"],
        is_verbose=options["trace"],
        processes=options["processes"],
    )
