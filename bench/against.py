"""The broker's CPU for each request, this tree beside another commit of it: `python -m bench --against REF`.

Both brokers run all the time and are asked in turns, so that the machine's moods meet both. What counts is the ratio of
a round; the spread says what a ratio is worth. CPU and not time: a client on the same machine disturbs it less.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from bench.contenders import SETTINGS
from bench.errors import BenchError
from bench.fetching import fetch_request
from bench.loads import LATENCY_VALUE_BYTES, MANY_IN_FLIGHT, create_topic, now_ms, pipeline
from bench.wire import produce_request, record_batch
from penstock.testing.processes import BrokerProcess, ServerProcess

REPOSITORY = Path(__file__).resolve().parents[1]
REQUESTS, QUICK_REQUESTS = 20_000, 1_000
ROUNDS = 10
RATIO_AT_MOST = 1.05


@dataclass(frozen=True, slots=True)
class Load:
    title: str
    request: Callable[[str], bytes]  # for a topic
    depth: int


def _produce(topic: str) -> bytes:
    return produce_request(topic, 0, record_batch(bytes(LATENCY_VALUE_BYTES), now_ms()))


def _fetch(topic: str) -> bytes:
    """Of the one record that a topic has from its creation."""
    return fetch_request(topic, 0)


LOADS = (
    Load("produce, one after another", _produce, 1),
    Load(f"produce, {MANY_IN_FLIGHT} in flight", _produce, MANY_IN_FLIGHT),
    Load("fetch, one after another", _fetch, 1),
    Load(f"fetch, {MANY_IN_FLIGHT} in flight", _fetch, MANY_IN_FLIGHT),
)


def extract(reference: str, directory: Path) -> Path:
    """The sources of that commit, without touching the repository's own work trees."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--format=tar", reference, "src"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"git knows no sources of {reference!r}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "src"


def make_broker(sources: Path, directory: Path) -> BrokerProcess:
    environment = {
        "PYTHONPATH": str(sources),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(directory / "bytecode"),
    }
    _check_sources(sources, environment)
    return BrokerProcess(directory / "data", config=SETTINGS, environment=environment)


def _check_sources(sources: Path, environment: Mapping[str, str]) -> None:
    """An installed package must not come before the sources that are to be measured."""
    done = subprocess.run(
        [sys.executable, "-c", "import penstock; print(penstock.__file__)"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout.startswith(str(sources)):
        raise BenchError(f"the broker would not be that of {sources}: {done.stdout}{done.stderr}")


def cpu_ns(pid: int) -> int:
    """Of all threads that run now, by the scheduler's own account: user and system time have ticks of 10 ms."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def microseconds_per_request(server: ServerProcess, load: Load, topic: str, count: int) -> float:
    request = load.request(topic)
    pipeline(server, request, count // 10, load.depth)
    before = cpu_ns(server.pid)
    pipeline(server, request, count, load.depth)
    return (cpu_ns(server.pid) - before) / count / 1000


@dataclass(frozen=True, slots=True)
class Ratios:
    """Of the rounds of one load."""

    title: str
    ours: list[float]
    theirs: list[float]

    @property
    def ratios(self) -> list[float]:
        return [mine / other for mine, other in zip(self.ours, self.theirs, strict=True)]

    @property
    def is_met(self) -> bool:
        return median(self.ratios) <= RATIO_AT_MOST

    def describe(self) -> str:
        ratios = sorted(self.ratios)
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        return (
            f"{self.title}: {median(self.ours):.2f} us against {median(self.theirs):.2f} us of CPU a request; ratio "
            f"{median(ratios):.3f}, half of the rounds {low:.3f} to {high:.3f}, all {ratios[0]:.3f} to "
            f"{ratios[-1]:.3f}; goal {RATIO_AT_MOST} at most: {'met' if self.is_met else 'not met'}"
        )


def measure_against(reference: str, rounds: int, count: int, directory: Path) -> list[Ratios]:
    trees = {"this tree": REPOSITORY / "src", reference: extract(reference, directory / "other")}
    figures: dict[tuple[str, str], list[float]] = {(load.title, name): [] for load in LOADS for name in trees}
    print(f"load average at the start: {os.getloadavg()[0]:.2f}", flush=True)
    with ExitStack() as stack:
        brokers = {
            name: stack.enter_context(make_broker(sources, directory / f"broker-{number}"))
            for number, (name, sources) in enumerate(trees.items())
        }
        for number in range(rounds):
            for load in LOADS:
                for name in list(brokers) if number % 2 == 0 else list(brokers)[::-1]:
                    topic = create_topic(brokers[name])
                    cost = microseconds_per_request(brokers[name], load, topic, count)
                    figures[load.title, name].append(cost)
                    print(f"round {number + 1}: {load.title}: {name}: {cost:.2f} us", flush=True)
    return [Ratios(load.title, *(figures[load.title, name] for name in trees)) for load in LOADS]
