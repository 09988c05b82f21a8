"""Many schedules, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.testing.simulation.plan import draw_plan
from penstock.testing.simulation.simulation import Verdict, simulate


@dataclass
class SimulationReport:
    seed: int
    schedules: int = 0
    steps: int = 0
    crashes: int = 0
    cleanings: int = 0
    seconds: float = 0.0
    failed_seeds: list[int] = field(default_factory=list)

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


def run_schedules(
    seed: int, count: int, say: Callable[[str], None] = lambda _: None, *, is_verbose: bool = False
) -> SimulationReport:
    """The schedules of the seeds from `seed` on."""
    report = SimulationReport(seed)
    started = time.perf_counter()
    for each in range(seed, seed + count):
        verdict = simulate(draw_plan(each))
        report.schedules += 1
        report.steps += verdict.requests
        report.crashes += verdict.crashes
        report.cleanings += verdict.cleanings
        if is_verbose:
            say("\n".join(verdict.trace))
        if not verdict.is_sound:
            report.failed_seeds.append(each)
            say(explain(verdict))
    report.seconds = time.perf_counter() - started
    return report


def explain(verdict: Verdict) -> str:
    """Enough to see it again."""
    return "\n".join(
        [
            *verdict.trace,
            f"seed {verdict.plan.seed} failed:",
            *(f"  {failure}" for failure in verdict.failures),
            f"again: python -m penstock.testing.simulation --schedules 1 --seed {verdict.plan.seed}",
        ]
    )
