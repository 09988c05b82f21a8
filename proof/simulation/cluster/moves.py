"""A broker is killed at every step of a move: one schedule for each step and each broker.

    python -m proof moves --seed 7
    python -m proof moves --seed 7 --move cancel --every 5

A step is a change of the store or a message between brokers, from the request that asks for the move on until the move
is over and the replicas that left are gone. A first schedule without a kill counts the steps. Until its kill a schedule
is the same as that one, so each step is met once. The killed broker comes back. Whoever it was, and whenever: the move
ends at its target, and what must hold after any schedule holds.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.cluster.decisions.reassignments import is_reassigning
from penstock.cluster.image import PartitionState
from penstock.protocol.errors import ErrorCode
from proof.frame import Say, Task, say_nothing
from proof.simulation.client import Client, Script
from proof.simulation.cluster.simulation import Cast, ClusterSimulation, gather
from proof.simulation.operating.requests import EXPECTED_OF_MOVES, Replicas, name_codes, reassign, unexpected
from proof.simulation.plan import Mode, Plan
from proof.simulation.schedule import FAULTS, Verdict, listening
from proof.simulation.topics import RECORDS

BROKERS = 4
_MOVED = RECORDS, 0
# A producer that knows what was acknowledged and a reader: there is something to copy, and more of it comes.
_CLIENTS = ("idempotent", "idempotent", "reader")
_BEFORE_MS = 400.0
_AFTER_MS = 40.0
_MOVE_LIMIT_MS = 30_000
_RETRY_MS = 40.0
_DONE = frozenset({ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS})


class Move(NamedTuple):
    """The replicas before, what is asked for in turn (None cancels), and where it may end."""

    before: Replicas
    asked: tuple[Replicas | None, ...]
    ends: tuple[Replicas, ...]


def _to(before: Replicas, target: Replicas) -> Move:
    return Move(before, (target,), (target,))


MOVES = {
    "replace-follower": _to((0, 1, 2), (0, 1, 3)),
    "replace-leader": _to((0, 1, 2), (3, 1, 2)),
    "replace-all": _to((0, 1), (2, 3)),
    "add": _to((0, 1), (0, 1, 2)),
    "remove-follower": _to((0, 1, 2), (0, 1)),
    "remove-leader": _to((0, 1, 2), (1, 2)),
    # Too late, when the move is over.
    "cancel": Move((0, 1), ((2, 3), None), ((0, 1), (2, 3))),
    "other-target": Move((0, 1), ((1, 2), (0, 3)), ((0, 3),)),
}


class Kill(NamedTuple):
    step: int
    place: int


@dataclass(slots=True)
class Steps:
    """Counts, and strikes after one of them."""

    kill: Kill | None
    count: int = 0
    is_counting: bool = False
    is_struck: bool = False

    def next(self) -> bool:
        """Whether this is the one."""
        if not self.is_counting:
            return False
        self.count += 1
        self.is_struck |= (is_due := self.kill is not None and self.count == self.kill.step)
        return is_due


class Mover(Client):
    """Asks for one assignment after the other, each until the cluster says that it is accepted."""

    asked: tuple[Replicas | None, ...] = ()

    def run(self) -> Script:
        for replicas in self.asked:
            while True:
                codes = yield from reassign({_MOVED: replicas})
                self.note(f"moves {_MOVED} to {replicas}: {name_codes(codes)}")
                for text in unexpected(codes or {}, EXPECTED_OF_MOVES):
                    self.notebook.fail(f"{self.name} moves {_MOVED} to {replicas}: {text}")
                if codes is not None and codes.get(_MOVED) in _DONE:
                    break
                yield _RETRY_MS


class _MoveSimulation(ClusterSimulation):
    def __init__(self, cast: Cast, move: Move, steps: Steps) -> None:
        super().__init__(cast)
        self._move = move
        self._steps = steps
        stage = cast.faults.stage
        stage.network.told_of_arrival = self._message_arrived
        for place, link in enumerate(stage.links):
            link.told_of_write = lambda place=place: self._step(f"a write of {place}")  # type: ignore[misc]

    def run(self) -> None:
        self.found()
        self.run_script(self._mover(2, (self._move.before,)), "replicas are where the move begins")
        self.wait_until_whole("replicas are where the move begins")
        clients = self.invite()
        for client in clients:
            client.start()
        self.run_for(_BEFORE_MS)
        mover = self._mover(3, self._move.asked)
        self._steps.is_counting = True
        mover.start()
        self.run_until(lambda: mover.is_done and self._is_over(), _MOVE_LIMIT_MS, "the move ends")
        self.run_for(_AFTER_MS)
        self._steps.is_counting = False
        self.finish(clients)

    def _mover(self, count: int, asked: tuple[Replicas | None, ...]) -> Mover:
        mover = Mover(self.free_number(count), "mover", self.setting, self.plan.seed)
        mover.asked = asked
        return mover

    def _message_arrived(self, source: int, target: int) -> None:
        self._step(f"a message from {source} to {target}")

    def _step(self, what: str) -> bool:
        is_due = self._steps.next()
        if is_due:
            self.notebook.note("step", f"{self._steps.count} is {what}")
            self.world.after(0, FAULTS, self._kill)
        return is_due

    def _kill(self) -> None:
        assert self._steps.kill is not None
        self._faults.stage.crash(self._steps.kill.place, 0, is_power_cut=False)

    def _is_over(self) -> bool:
        """As every broker that runs knows."""
        states = [broker.metadata.image.partition(*_MOVED) for broker in self.brokers()]
        return bool(states) and all(state is not None and self._has_ended(state) for state in states)

    def _has_ended(self, state: PartitionState) -> bool:
        is_there = any(set(state.replicas) == set(end) for end in self._move.ends)
        return is_there and not is_reassigning(state)


def simulate_move(name: str, seed: int, kill: Kill | None = None) -> tuple[Verdict, Steps]:
    plan = Plan(seed, Mode.REPLICATED, 0, _CLIENTS, (), BROKERS)
    cast = gather(plan)
    steps = Steps(kill)
    with listening(cast.setting.notebook, cast.setting.machines):
        _MoveSimulation(cast, MOVES[name], steps).run()
    return Verdict.of(plan, cast.setting.notebook), steps


# ---- all of them


class Case(NamedTuple):
    move: str
    seed: int
    kill: Kill | None

    @property
    def command(self) -> str:
        kill = "" if self.kill is None else f" --kill {self.kill.step} {self.kill.place}"
        return f"python -m proof moves --seed {self.seed} --move {self.move}{kill}"


class Outcome(NamedTuple):
    case: Case
    failures: tuple[str, ...]
    trace: tuple[str, ...]
    steps: int


@dataclass
class MovesReport:
    seed: int
    steps: int = 0
    schedules: int = 0
    seconds: float = 0.0
    failed: list[Case] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        line = (
            f"seed {self.seed}: {self.steps} steps of moves, {self.schedules} schedules in {self.seconds:.0f} s, "
            f"{len(self.failed)} failures"
        )
        return "\n".join([line, *(f"  again: {case.command}" for case in self.failed[:20])])


def run_case(case: Case) -> Outcome:
    verdict, steps = simulate_move(*case)
    failures = verdict.failures
    if case.kill is not None and not steps.is_struck:
        failures = (*failures, f"there is no step {case.kill.step}")
    return Outcome(case, failures, verdict.trace if failures else (), steps.count)


def cases_of(move: str, seed: int, steps: int, every: int = 1) -> Iterator[Case]:
    """Each step with each broker; or every so manieth of them, so that all brokers have their turn."""
    kills = [Kill(step, place) for step in range(1, steps + 1) for place in range(BROKERS)]
    for kill in kills[seed % every :: every]:
        yield Case(move, seed, kill)


def run_moves(
    seed: int, moves: Sequence[str] = tuple(MOVES), every: int = 1, say: Say = say_nothing, processes: int = 1
) -> MovesReport:
    report = MovesReport(seed)
    started = time.perf_counter()

    def add(outcome: Outcome) -> None:
        report.schedules += 1
        if outcome.failures:
            report.failed.append(outcome.case)
            failures = (f"  {failure}" for failure in outcome.failures)
            say("\n".join([*outcome.trace, f"{outcome.case.command} failed:", *failures]))

    for move in moves:
        first = run_case(Case(move, seed, None))
        add(first)
        report.steps += first.steps
        say(f"{move} has {first.steps} steps")
        cases = list(cases_of(move, seed, first.steps, every))
        if processes == 1:
            for case in cases:
                add(run_case(case))
        else:
            with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
                for outcome in pool.map(run_case, cases, chunksize=8):
                    add(outcome)
    report.seconds = time.perf_counter() - started
    return report


def run(task: Task) -> MovesReport:
    options = task.options
    moves = options["move"] or tuple(MOVES)
    if options["kill"]:
        report = MovesReport(task.seed)
        for move in moves:
            outcome = run_case(Case(move, task.seed, Kill(*options["kill"])))
            task.say("\n".join([*outcome.trace, *outcome.failures]))
            report.schedules += 1
            report.failed += [outcome.case] if outcome.failures else []
        return report
    reports = [
        run_moves(seed, moves, options["every"], task.say, options["processes"])
        for seed in range(task.seed, task.seed + task.rounds)
    ]
    total = MovesReport(task.seed)
    for report in reports:
        total.steps += report.steps
        total.schedules += report.schedules
        total.seconds += report.seconds
        total.failed += report.failed
    return total
