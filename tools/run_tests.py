"""`make test` and `make interop`: in parts beside each other, since servers keep a test waiting for half of its time.

`run_tests.py test` and `run_tests.py interop` run every part; with arguments behind they are plain pytest:
`make test ARGS='tests/unit -k batch'`, `make interop AREA=tools`. What each part took and which tests failed is
said at the end; the slowest tests are in .cache/test-times.txt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

from pytest_reports import Case, read_cases, report_options

PIPELINES = "tests/pipelines"
STREAMS = f"{PIPELINES}/streams"
TABLES = f"{PIPELINES}/tables"
# Where tests start brokers and wait for them, so in three parts that wait beside each other. Clients share brokers;
# what is hurt, stopped or attacked is a broker of the test's own; those with clusters wait longest.
INTEGRATION = "tests/integration"
WITH_CLUSTERS = f"{INTEGRATION}/cluster"
WITH_CLIENTS = ("tests/clients", "tests/guides", f"{INTEGRATION}/client", f"{INTEGRATION}/registry")
# Where hypothesis and the simulation compute.
MODELS = ("tests/properties", "tests/scenarios")
# Where every test starts Spark anew. The others of the pipelines share a session, those of tables and of streams have
# one each: a test that waits for Spark keeps one core of two busy.
OWN_SPARK = (
    f"{PIPELINES}/test_cluster.py",
    f"{PIPELINES}/test_interrupts.py",
    f"{PIPELINES}/test_pipeline_cli.py",
    f"{PIPELINES}/test_pipeline_rounds.py",
    f"{PIPELINES}/test_readme.py",
)
# Kafka's own software needs longer for a test, and lies outside of what pytest collects by itself.
INTEROP_OPTIONS = (
    "-o",
    "addopts=--strict-markers --strict-config --import-mode=importlib -m 'not soak' -ra",
    "-o",
    "timeout=300",
)
# The parts of a run, by name. The first one's output is seen as it comes, that of the others when they have ended.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "test": {
        "the broker's code": tuple(f"--ignore={path}" for path in (PIPELINES, *WITH_CLIENTS, INTEGRATION, *MODELS)),
        "the pipelines": (PIPELINES, *(f"--ignore={path}" for path in (STREAMS, TABLES, *OWN_SPARK))),
        "topics as tables": (TABLES,),
        "brokers that are hurt": (INTEGRATION, *(f"--ignore={path}" for path in (WITH_CLUSTERS, *WITH_CLIENTS))),
        "streams": (STREAMS,),
        "clusters that run": (WITH_CLUSTERS,),
        "brokers and their clients": WITH_CLIENTS,
        "pipelines with a Spark of their own": OWN_SPARK,
        "models and generated cases": MODELS,
    },
    "interop": {
        "Spark and Hadoop": ("tests/interop/spark", "tests/interop/hadoop"),
        "Java clients, and Kafka's files": (
            "tests/interop/clients",
            "tests/interop/schemas",
            "tests/interop/storage",
        ),
        "Kafka's authorizer, and its logins": ("tests/interop/security",),
        "Kafka's tools": ("tests/interop/tools",),
        "Kafka Streams": ("tests/interop/streams",),
        "three brokers": ("tests/interop/cluster",),
        "a second registry, REST on Kafka, and the guides": (
            "tests/interop/registry",
            "tests/interop/rest",
            "tests/interop/guides",
        ),
    },
}
# Whose tests write to memory: each syncs logs of its own, and a disk that all parts use keeps it waiting for a few
# milliseconds every time. None of them cuts the power, and a disk that fails is one of `penstock.testing.disks`.
IN_MEMORY = frozenset({"the broker's code"})
MEMORY = Path("/dev/shm")  # noqa: S108  # what is made there has a name that nobody can guess
# What a passed test has written goes with it. Containers are often given 64 MB of shared memory.
MEMORY_BYTES = 2 << 30
# With all of them at once two cores had a load of 12, and what has a deadline missed it: Spark gives a Python worker
# ten seconds to start. The longest come first.
AT_ONCE = 4
CACHE = Path(__file__).resolve().parents[1] / ".cache"
# Tests that the file of times names, of all parts.
SLOWEST = 50
OPTIONS: dict[str, tuple[str, ...]] = {"test": (), "interop": INTEROP_OPTIONS}


def main(run: str, arguments: Sequence[str]) -> int:
    keep_compiled_code()
    if arguments:
        return subprocess.call(pytest(*OPTIONS[run], *arguments))
    parts = {name: (*OPTIONS[run], *chosen) for name, chosen in PARTS[run].items()}
    return run_parts(parts, CACHE / f"{run}-times.txt")


def keep_compiled_code() -> None:
    """As tests/conftest.py does, and before pytest starts: its plugins import much of Penstock before they read that
    file. Without compiled code the start of each part takes 2.1 s of CPU time instead of 0.9 s.
    """
    if sys.dont_write_bytecode:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".cache" / "bytecode")


def run_parts(parts: Mapping[str, Sequence[str]], times_path: Path) -> int:
    started = time.monotonic()
    (first_name, first), *others = parts.items()
    with ThreadPoolExecutor(AT_ONCE) as pool, Ending() as ending:
        seen = pool.submit(run_part, first_name, first, ending.call)
        running = {name: pool.submit(ending.run, name, chosen) for name, chosen in others}
        done = {first_name: seen.result()}
        for name, part in running.items():
            print(f"{name}, tested meanwhile:", flush=True)
            done[name], output = part.result()
            sys.stdout.buffer.write(output)
            sys.stdout.flush()
    lines = sum_up(done, time.monotonic() - started)
    times_path.parent.mkdir(exist_ok=True)
    times_path.write_text("\n".join([time.strftime("%Y-%m-%d %H:%M"), *lines, *list_slowest(done)]) + "\n")
    print(*lines, f"the slowest tests: {times_path}", *list_failures(done), sep="\n")
    return int(any(part.code for part in done.values()))


class Part(NamedTuple):
    """A part that has ended."""

    code: int
    seconds: float
    cpu_seconds: float  # with the processes that its tests have started and waited for
    cases: Sequence[Case]


def run_part(name: str, chosen: Sequence[str], call: Callable[[list[str]], tuple[int, float]]) -> Part:
    """With a directory of its own for what tests write: pytest's usual one is for all of a user's runs, and two that
    end at the same time remove the same old files, which fails one of them.
    """
    started = time.monotonic()
    memory = find_memory() if name in IN_MEMORY else None
    kept = () if memory is None else ("-o", "tmp_path_retention_policy=failed")
    with tempfile.TemporaryDirectory(prefix="penstock-tests-", dir=memory, ignore_cleanup_errors=True) as directory:
        report, written = Path(directory) / "report.xml", Path(directory) / "written"
        code, cpu_seconds = call(pytest(*chosen, *kept, f"--basetemp={written}", *report_options(report)))
        return Part(code, time.monotonic() - started, cpu_seconds, read_cases(report))


def find_memory() -> Path | None:
    """None where there is none, or too little of it."""
    is_there = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES
    return MEMORY if is_there else None


def sum_up(parts: Mapping[str, Part], seconds: float) -> list[str]:
    """What each part took, the longest first."""
    longest_first = sorted(parts.items(), key=lambda named: -named[1].seconds)
    lines = [
        f"{show_time(part.seconds):>12}  {name}: {len(part.cases)} tests, {show_time(part.cpu_seconds)} of a core"
        for name, part in longest_first
    ]
    cpu_seconds = sum(part.cpu_seconds for part in parts.values())
    return [*lines, f"{show_time(seconds):>12}  all parts together, {show_time(cpu_seconds)} of a core"]


def list_slowest(parts: Mapping[str, Part]) -> list[str]:
    cases = [case for part in parts.values() for case in part.cases]
    slowest = sorted(cases, key=lambda case: -case.seconds)[:SLOWEST]
    return [f"{case.seconds:8.1f} s  {case.test}" for case in slowest]


def list_failures(parts: Mapping[str, Part]) -> list[str]:
    """The last that a run says, so that its end alone tells what has failed."""
    failed = [f"failed: {case.test}: {why}" for part in parts.values() for case in part.cases for why in case.failures]
    without_a_case = [
        f"failed: {name}: exit code {part.code}, and no test that failed"
        for name, part in parts.items()
        if part.code and not any(case.failures for case in part.cases)
    ]
    return [*failed, *without_a_case]


def show_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


class Ending:
    """Parts that run meanwhile end with the run, also where it is interrupted."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for process in self._processes:
            process.terminate()

    def run(self, name: str, chosen: Sequence[str]) -> tuple[Part, bytes]:
        """What came of it, and what was said."""
        if self._is_over:
            return Part(1, 0.0, 0.0, ()), b""
        with tempfile.TemporaryFile() as output:
            part = run_part(name, chosen, lambda command: self.call(command, output.fileno()))
            output.seek(0)
            return part, output.read()

    def call(self, command: list[str], output: int | None = None) -> tuple[int, float]:
        """Its exit code, and the seconds of CPU time that it took."""
        with subprocess.Popen(command, stdout=output, stderr=output) as process:
            self._processes.append(process)
            try:
                _, status, usage = os.wait4(process.pid, 0)
            except ChildProcessError:  # `terminate` has met its end
                return process.wait(), 0.0
            process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
