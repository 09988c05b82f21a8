"""SIGINT and SIGTERM while commands start Spark, and once their batches run; see proof.pipeline.interrupts."""

from __future__ import annotations

import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from penstock.testing.processes import BrokerProcess, find_free_port
from proof.pipeline.interrupts import (
    COMMANDS,
    PROMISED_S,
    SIGNALS,
    Marked,
    Seen,
    arguments_of,
    prepare,
    run_rounds,
    trouble_with,
    without_options,
)
from tests.pipelines.committed import produce
from tests.shared_brokers import SHARED_BROKER

DEMO = Path(__file__).parents[2] / "tools" / "demo.py"
# The promise is for a machine that has nothing else to do, and `make soak` holds commands to it. In `make test` others
# run beside these, and starts of Java take three times as long: what is judged here is that the end comes at all.
BUSY_S = 3 * PROMISED_S
# A start takes six seconds or more. A third of it each, and not the time that Python takes for itself.
THIRDS_S = ((0.7, 2.0), (2.0, 4.0), (4.0, 6.0))
START_S = 90.0
STOPPING = "stopping: the batches at work end first; a second Ctrl-C or SIGTERM ends everything at once\n"
# A batch at work leaves a file, and then takes longer than anybody waits.
SLOW = """\
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.pipelines import Pipeline, Topic


@dataclass(frozen=True)
class Slow:
    name: str = "slow"
    session_settings = {}

    def describe(self, settings):
        return "slow"

    def open(self, spark, settings):
        return self

    def write(self, rows, batch):
        Path("at-work").touch()
        time.sleep(600)

    def close(self):
        pass


slow = Pipeline(name="slow", sources=(Topic("lines"),), sinks=(Slow(),))
"""
SLOW_STREAMS = """\
import time
from pathlib import Path

from penstock.streams import Streams, text


def wait(row):
    Path({at_work!r}).touch()
    time.sleep(600)
    return row


app = Streams("slow-streams")
app.stream("lines", value=text()).map_rows(wait, columns="value string").to("copies")
"""
ASLEEP = "reflect('java.lang.Thread', 'sleep', 600000L)"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config=SHARED_BROKER) as process:
        yield process.bootstrap_servers


@pytest.fixture(scope="module")
def directory(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("work")
    prepare(made, broker)
    return made


def test_everything_ends_with_one_line_when_a_signal_comes_while_spark_starts(broker: str, directory: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"interrupts with seed {seed}")  # shown by pytest when the test fails
    chance = random.Random(seed)
    for command, third in zip(chance.sample(sorted(COMMANDS), k=len(THIRDS_S)), THIRDS_S, strict=True):
        after_s, number = chance.uniform(*third), chance.choice(SIGNALS)
        started = Marked(arguments_of(command, broker), directory)
        time.sleep(after_s)
        seen = started.end(number)
        assert not trouble_with(seen, number, BUSY_S), f"{command}, {number.name} after {after_s:.2f} s"


def test_a_batch_at_work_is_waited_for_only_until_a_second_signal_comes(broker: str, directory: Path) -> None:
    (directory / "slow.py").write_text(SLOW)
    produce(broker, "lines", "to be or not to be")
    end_twice(["pipeline", "run", "slow.py"], broker, directory, (directory / "at-work").exists)


@pytest.mark.soak
def test_a_batch_of_streams_is_waited_for_only_until_a_second_signal_comes(broker: str, directory: Path) -> None:
    at_work = directory / "streams-at-work"
    (directory / "slow_streams.py").write_text(SLOW_STREAMS.format(at_work=str(at_work)))
    produce(broker, "lines", "to be or not to be")
    end_twice(["streams", "run", "slow_streams.py"], broker, directory, at_work.exists)


@pytest.mark.soak
def test_a_batch_of_a_followed_question_is_waited_for_only_until_a_second_signal_comes(
    broker: str, directory: Path
) -> None:
    produce(broker, "lines", "to be or not to be")
    port = find_free_port()
    slow = f"SELECT reflect('java.rmi.registry.LocateRegistry', 'createRegistry', {port}), {ASLEEP} FROM lines"

    def is_at_work() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    end_twice(["sql", "--follow", "--from", "beginning", slow], broker, directory, is_at_work)


def end_twice(command: list[str], broker: str, directory: Path, is_at_work: Callable[[], bool]) -> None:
    started = Marked([sys.executable, "-m", "penstock", *command, "-b", broker], directory)
    said: list[str] = []
    try:
        deadline = time.monotonic() + START_S
        while not is_at_work():
            assert started.process.poll() is None, started.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        errors = started.process.stderr
        assert errors is not None
        seen = started.end(signal.SIGINT, signal.SIGTERM, between=lambda: said.extend(lines_until(errors, STOPPING)))
    finally:
        started.close()
    assert without_options("".join(said)).endswith(STOPPING)
    assert seen.err == "Error: interrupted: the batches at work were not finished\n"
    assert (seen.code, seen.left) == (130, [])
    assert seen.took_s < BUSY_S


def lines_until(stream: IO[str], last: str) -> Iterator[str]:
    for line in stream:
        yield line
        if line == last:
            return


@pytest.mark.soak
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_everything_ends_when_a_signal_comes_at_any_half_second(command: str, broker: str, directory: Path) -> None:
    run_soak({command: arguments_of(command, broker)}, directory)


@pytest.mark.soak
def test_the_demo_ends_when_a_signal_comes_at_any_half_second(tmp_path: Path) -> None:
    run_soak({"demo": [sys.executable, str(DEMO), "--directory", str(tmp_path / "demo"), "--duration", "1"]}, tmp_path)


def run_soak(commands: dict[str, list[str]], directory: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    report = run_rounds(commands, 24, seed, directory, print, PROMISED_S)
    print(report)
    assert report.is_sound, str(report)


ENDED = Seen(130, "starting Spark ...\n", "Error: interrupted while Spark started\n", 1.0, [])


@pytest.mark.parametrize(
    ("seen", "trouble"),
    [
        (ENDED, ""),
        (ENDED._replace(left=["java"]), "left behind: java"),
        (ENDED._replace(took_s=9.0), "took 9.0 s"),
        (ENDED._replace(code=1), "exit code 1"),
        (ENDED._replace(err=f"Traceback\n{ENDED.err}"), "exit code 130, and it said 'Traceback"),
        (ENDED._replace(err="stopping: the batches at work end first\n", code=0, took_s=9.0), ""),
        (ENDED._replace(err="", code=-signal.SIGTERM), "exit code -15"),
        (ENDED._replace(err="", code=-signal.SIGTERM, out=""), ""),
    ],
)
def test_trouble_is_told_when_an_end_is_not_as_promised(seen: Seen, trouble: str) -> None:
    told = trouble_with(seen, signal.SIGTERM, 5.0)
    assert told.startswith(trouble)
    assert bool(told) == bool(trouble)
