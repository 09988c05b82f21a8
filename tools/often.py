"""`make often`: a choice of tests again and again on busy cores, to find those that fail now and then.

    make often ARGS='--part clusters --rounds 50'
    make often ARGS='tests/integration/cluster -k "failover or status" --minutes 30'

Each round is a pytest of its own, with a temporary directory and a seed of its own; every argument that is not an
option of this command is pytest's. The logs of rounds that failed stay in .cache/often/<time>, and in `kept` below it
what failing tests leave (tests/keeping.py). On Ctrl-C and SIGTERM the rounds under way are interrupted, so that their
tests stop their servers; their logs stay as well, and the rounds that have ended are summed up. The busy loops end with
this process, however it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from proof.busy_loops import BusyLoops
from pytest_reports import Case, read_cases, report_options
from run_tests import OPTIONS, PARTS, pytest

RUNS = Path(__file__).resolve().parents[1] / ".cache" / "often"
# Of earlier commands, with logs and perhaps data of brokers.
KEPT_RUNS = 10
# For the tests under way to stop their servers, which then stop cleanly: STOP_TIMEOUT_S of one is 30 s.
INTERRUPT_TIMEOUT_S = 60.0
_WHY_CHARACTERS = 160
# pytest's exit codes for a choice that never gives a test: a usage error, and nothing collected.
_HOPELESS = frozenset({4, 5})
_RUN_ITSELF = "(the run itself)"

Say = Callable[[str], None]


# ---------------------------------------------------------------------------------------- what is asked for


class Choice(NamedTuple):
    tests: Sequence[str]  # pytest's arguments
    rounds: int = 20
    busy: int = 0
    minutes: float | None = None
    at_once: int = 1


def parse(arguments: Sequence[str]) -> Choice:
    parser = argparse.ArgumentParser(
        prog="make often", description="Run tests again and again on busy cores.", allow_abbrev=False
    )
    parser.add_argument(
        "--part", metavar="NAME", help="a part of `make test` or `make interop`, by a piece of its name"
    )
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="how many (default: 20)")
    parser.add_argument(
        "--busy",
        type=int,
        default=os.cpu_count(),
        metavar="N",
        help="busy loops beside the tests (default: one a core)",
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no round after that time")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="rounds beside each other (default: 1)")
    given, tests = parser.parse_known_args(arguments)
    if given.rounds < 1 or given.at_once < 1 or given.busy < 0 or not (given.minutes is None or given.minutes > 0):
        parser.error("--rounds and --at-once are at least 1, --busy at least 0, --minutes more than 0")
    if given.part is not None:
        try:
            tests = [*find_part(given.part), *tests]
        except LookupError as error:
            parser.error(str(error))
    if not tests:
        parser.error("say which tests: --part NAME, a path, or -k EXPRESSION")
    return Choice(tests, given.rounds, given.busy, given.minutes, given.at_once)


def find_part(piece: str) -> tuple[str, ...]:
    """What pytest is given for the part. LookupError where the piece is in no name, or in several."""
    parts = {name: (*OPTIONS[run], *tests) for run, named in PARTS.items() for name, tests in named.items()}
    if piece in parts:
        return parts[piece]
    found = [name for name in parts if piece.lower() in name.lower()]
    if len(found) == 1:
        return parts[found[0]]
    problem = f"{piece!r} is in several names" if found else f"no part has {piece!r} in its name"
    raise LookupError(f"{problem}: {'; '.join(found or parts)}")


# ---------------------------------------------------------------------------------------- what came of it


class Failure(NamedTuple):
    test: str
    why: str  # the first line

    @property
    def kind(self) -> str:
        """The same for failures that differ by numbers alone: ports, offsets, seconds."""
        return re.sub(r"\b0x[0-9a-f]+\b|\d+", "N", self.why)


class Outcome(NamedTuple):
    number: int
    seed: int
    seconds: float
    passed: int
    failures: Sequence[Failure]
    is_hopeless: bool = False  # the next round would not do better


def judge(number: int, seed: int, seconds: float, exit_code: int, cases: Sequence[Case]) -> Outcome:
    failures = [Failure(case.test, why[:_WHY_CHARACTERS]) for case in cases for why in case.failures]
    passed = sum(case.is_passed for case in cases)
    if exit_code and not failures:
        failures = [Failure(_RUN_ITSELF, f"ended with exit code {exit_code}, and no test failed")]
    return Outcome(number, seed, seconds, passed, failures, exit_code in _HOPELESS)


def describe(outcome: Outcome, rounds: int) -> str:
    tests = list(dict.fromkeys(failure.test.rpartition("::")[2] for failure in outcome.failures))
    counts = [f"{len(tests)} failed"] * bool(tests) + [f"{outcome.passed} passed"]
    line = f"round {outcome.number} of {rounds}: {', '.join(counts)} in {outcome.seconds:.0f} s"
    return f"{line}: {', '.join(tests)}" if tests else line


def sum_up(outcomes: Sequence[Outcome], rounds: int, logs: Path, repeat: Callable[[int], str]) -> list[str]:
    """The lines at the end. `repeat` tells the command of a round by its seed."""
    failed = [outcome for outcome in outcomes if outcome.failures]
    ran = f"{len(outcomes)} of {rounds} rounds ran"
    if not failed:
        return [f"{ran}, none failed"]
    lines = [f"{ran}, {len(failed)} failed; the logs are in {logs}"]
    found: defaultdict[str, defaultdict[str, dict[int, Failure]]] = defaultdict(lambda: defaultdict(dict))
    for outcome in failed:
        for failure in outcome.failures:
            found[failure.test][failure.kind].setdefault(outcome.number, failure)
    for test, kinds in sorted(found.items(), key=lambda each: -len(_rounds_of(each[1]))):
        lines.append(f"{len(_rounds_of(kinds))} of {len(outcomes)}  {test}")
        for by_round in kinds.values():
            first = min(by_round)
            lines.append(f"    {len(by_round)} times: {by_round[first].why}")
            lines.append(f"        {', '.join(log_name(number) for number in sorted(by_round))}")
    lines.append(f"{log_name(failed[0].number).removesuffix('.log')} again: {repeat(failed[0].seed)}")
    return lines


def _rounds_of(kinds: Mapping[str, Mapping[int, Failure]]) -> set[int]:
    return {number for by_round in kinds.values() for number in by_round}


def log_name(number: int) -> str:
    return f"round-{number:02}.log"


def repeating(tests: Sequence[str], seed: int) -> list[str]:
    return pytest(*tests, f"--hypothesis-seed={seed}")


# ---------------------------------------------------------------------------------------- the rounds


class Rounds:
    """Threads run the rounds; each waits for its pytest."""

    def __init__(self, choice: Choice, logs: Path, scratch: Path) -> None:
        self._choice = choice
        self._logs = logs
        self._scratch = scratch
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_over = False

    def run(self) -> Generator[Outcome, None, None]:
        """As they end. A round that was interrupted has no outcome."""
        last = None if self._choice.minutes is None else time.monotonic() + 60 * self._choice.minutes
        numbers = iter(range(1, self._choice.rounds + 1))
        with ThreadPoolExecutor(self._choice.at_once) as pool:
            running: set[Future[Outcome | None]] = set()
            try:
                while True:
                    while len(running) < self._choice.at_once and not self._is_late(last):
                        number = next(numbers, None)
                        if number is None:
                            break
                        running.add(pool.submit(self._run_round, number))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from filter(None, (each.result() for each in done))
            finally:
                self._interrupt()

    def _is_late(self, last: float | None) -> bool:
        return self._is_over or (last is not None and time.monotonic() > last)

    def _run_round(self, number: int) -> Outcome | None:
        seed = random.SystemRandom().randrange(2**32)
        directory = self._scratch / str(number)
        report = self._scratch / f"{number}.xml"
        command = repeating(self._choice.tests, seed)
        own = (f"--basetemp={directory}", *report_options(report))
        log_path = self._logs / log_name(number)
        started = time.monotonic()
        with log_path.open("wb") as log:
            log.write(f"{shlex.join(command)}\n".encode())
            log.flush()
            exit_code = self._call([*command, *own], log.fileno())
        seconds = time.monotonic() - started
        shutil.rmtree(directory, ignore_errors=True)
        if self._is_over:
            return None
        outcome = judge(number, seed, seconds, exit_code, read_cases(report))
        if not outcome.failures:
            log_path.unlink()
        return outcome

    def _call(self, command: Sequence[str], output: int) -> int:
        with self._lock:
            if self._is_over:
                return 1
            # A group of its own: Ctrl-C reaches this process alone, which passes it on to pytest but not to servers.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PENSTOCK_KEPT": str(self._logs / "kept")},
                process_group=0,
            )
            self._processes.add(process)
        code = process.wait()
        with self._lock:
            self._processes.discard(process)
        return code

    def _interrupt(self) -> None:
        with self._lock:
            self._is_over = True
            processes = list(self._processes)
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(INTERRUPT_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def run(choice: Choice, logs: Path, say: Say) -> int:
    outcomes: list[Outcome] = []
    is_interrupted = False
    with ExitStack() as stack:
        # Where temporary directories usually are, and not among the logs: paths of sockets must be short.
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-often-")))
        stack.enter_context(BusyLoops(choice.busy))
        rounds = stack.enter_context(contextlib.closing(Rounds(choice, logs, scratch).run()))
        try:
            for outcome in rounds:
                outcomes.append(outcome)
                say(describe(outcome, choice.rounds))
                if outcome.is_hopeless:
                    break
        except KeyboardInterrupt:
            is_interrupted = True
    for line in sum_up(outcomes, choice.rounds, logs, lambda seed: shlex.join(repeating(choice.tests, seed))):
        say(line)
    return int(is_interrupted or any(outcome.failures for outcome in outcomes))


def remove_old(runs: Iterable[Path], count: int) -> None:
    """All but the newest, which have the last names."""
    for path in sorted(runs, reverse=True)[count:]:
        shutil.rmtree(path, ignore_errors=True)


def main(arguments: Sequence[str], runs: Path = RUNS) -> int:
    choice = parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs.mkdir(parents=True, exist_ok=True)
    remove_old(runs.iterdir(), KEPT_RUNS - 1)
    logs = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    logs.mkdir()
    try:
        return run(choice, logs, lambda line: print(line, flush=True))
    finally:
        with contextlib.suppress(OSError):  # something is kept there
            logs.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
