"""SIGINT and SIGTERM while commands start Spark: everything ends soon, with one line, and leaves no process.

    python -m proof interrupts --rounds 24 --seed 7 [--command sql]

Each command that starts Spark is started once for each half second of its start, and signalled then. The seed says
which of the two signals comes. A command that has begun its work by then, because the machine is quick, has to end as
it does at any later time: with a line that says what it finishes first, and well.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.processes import BrokerProcess
from proof.frame import Say, Task
from proof.pipeline.processes import kill_process

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_EVERY_S = 0.5
# What is promised for a machine that has nothing else to do.
PROMISED_S = 5.0
# For a command that finishes what it does, and for one that does not end at all.
_MOST_S = 90.0
_GONE_S = 3.0
_POLL_S = 0.05
# As shells report both: Python ends by the signal itself where it has interrupted code that was given as text.
_INTERRUPTED = (130, -signal.SIGINT)
_MARK = "PENSTOCK_PROOF_MARK"
_TIMEOUT_S = 30.0
_FILES = {
    "copying.py": """\
from penstock.pipelines import Pipeline, Topic
from penstock.pipelines.sinks.topic import TopicSink

copying = Pipeline(name="copying", sources=(Topic("lines"),), sinks=(TopicSink("copies"),))
""",
    "streaming.py": """\
from penstock.streams import Streams, text

app = Streams("streaming")
app.stream("lines", value=text()).to("copies")
""",
}
# An answer that nobody lives to see.
_QUESTION = "SELECT max(id * id) FROM range(1000000000000000)"
COMMANDS: Mapping[str, Sequence[str]] = {
    "pipeline": ("pipeline", "run", "copying.py"),
    "streams": ("streams", "run", "streaming.py"),
    "sql": ("sql", _QUESTION),
    "follow": ("sql", "--follow", "SELECT * FROM lines"),
}


class Seen(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str
    took_s: float  # from the signal to the end of all that it had started
    left: Sequence[str]  # processes that were still there, by their commands


def prepare(directory: Path, bootstrap_servers: str) -> None:
    """The files and topics of COMMANDS."""
    for name, text in _FILES.items():
        (directory / name).write_text(text)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for answer in admin.create_topics([NewTopic(name, 1) for name in ("lines", "copies")]).values():
        answer.result(_TIMEOUT_S)


def arguments_of(command: str, bootstrap_servers: str) -> list[str]:
    return [sys.executable, "-m", "penstock", *COMMANDS[command], "-b", bootstrap_servers]


class Marked:
    """A process, and all that it starts, known by a mark in the environment, which they inherit."""

    def __init__(self, arguments: Sequence[str], directory: Path) -> None:
        self._mark = uuid4().hex
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and inherited
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            arguments,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {_MARK: self._mark, "PYTHONUNBUFFERED": "1"},
        )

    def end(self, *numbers: signal.Signals, between: Callable[[], object] = lambda: None) -> Seen:
        """Signals it; the second time when `between` has returned. Nothing of it is left afterwards."""
        began = time.monotonic()
        try:
            self.process.send_signal(numbers[0])
            for number in numbers[1:]:
                between()
                began = time.monotonic()
                self.process.send_signal(number)
            self.process.wait(_MOST_S)
            left = self._wait_until_gone()
            took = time.monotonic() - began
            self.kill()  # who is left may hold the pipes
            out, err = self.process.communicate()
            return Seen(self.process.returncode, out, without_options(err), took, left)
        finally:
            self.close()

    def kill(self) -> None:
        for each in self._processes():
            kill_process(int(each.name))

    def close(self) -> None:
        self.kill()
        with self.process:  # its pipes are closed
            self.process.kill()

    def _wait_until_gone(self) -> list[str]:
        """Spark's Python workers end when they notice that Java has; a guardian when its program has."""
        deadline = time.monotonic() + _GONE_S
        while (left := self._processes()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return [_command_of(each) for each in left]

    def _processes(self) -> list[Path]:
        wanted = f"{_MARK}={self._mark}".encode()
        return [each for each in Path("/proc").iterdir() if each.name.isdecimal() and wanted in _environment_of(each)]


def _environment_of(process: Path) -> list[bytes]:
    """Nothing of a process that has ended and is not yet waited for."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "one that ended meanwhile"


def without_options(said: str) -> str:
    """Java says at each start which options it has from the environment, where tests make it quick."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("Picked up JAVA_TOOL_"))


def trouble_with(seen: Seen, number: signal.Signals, bound_s: float) -> str:
    """What was not as promised of a command that was signalled once; empty where all was."""
    if seen.left:
        return f"left behind: {'; '.join(seen.left)}"
    lines = seen.err.splitlines()
    is_unborn = number == signal.SIGTERM and seen.code == -number and not lines and not seen.out
    is_finished = len(lines) == 1 and lines[0].startswith("stopping: ") and seen.code == 0
    is_ended = len(lines) == 1 and lines[0].startswith("Error: interrupted") and seen.code in _INTERRUPTED
    if not (is_finished or is_ended or is_unborn):
        return f"exit code {seen.code}, and it said {seen.err!r} after {seen.out!r}"
    if not is_finished and seen.took_s > bound_s:
        return f"took {seen.took_s:.1f} s"
    return ""


@dataclass(frozen=True, slots=True)
class InterruptReport:
    seed: int
    tries: int
    longest_s: float
    problems: Sequence[str] = field(default_factory=tuple)

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        verdict = "each ended with one line and left nothing" if self.is_sound else "; ".join(self.problems)
        return (
            f"interrupts: seed {self.seed}, {self.tries} starts, the longest end took {self.longest_s:.1f} s: {verdict}"
        )


def run_rounds(
    commands: Mapping[str, Sequence[str]], moments: int, seed: int, directory: Path, say: Say, bound_s: float
) -> InterruptReport:
    """Every command, by name, at every moment of its start."""
    random_numbers = random.Random(seed)
    problems, longest = [], 0.0
    for name, arguments in commands.items():
        for moment in range(1, moments + 1):
            after_s, number = moment * _EVERY_S, random_numbers.choice(SIGNALS)
            started = Marked(arguments, directory)
            time.sleep(after_s)
            seen = started.end(number)
            longest = max(longest, seen.took_s)
            trouble = trouble_with(seen, number, bound_s)
            said = trouble or f"ended after {seen.took_s:.1f} s: {seen.err.strip() or 'without a word'}"
            say(f"{name}, {number.name} after {after_s:.1f} s: {said}")
            if trouble:
                problems.append(f"{name}, {number.name} after {after_s:.1f} s: {trouble}")
    return InterruptReport(seed, moments * len(commands), longest, problems)


def run(task: Task) -> InterruptReport:
    names = task.options["command"] or list(COMMANDS)
    work = task.scratch / "work"
    work.mkdir()
    with BrokerProcess(task.scratch / "broker") as broker:
        prepare(work, broker.bootstrap_servers)
        commands = {name: arguments_of(name, broker.bootstrap_servers) for name in names}
        return run_rounds(commands, task.rounds, task.seed, work, task.say, PROMISED_S)
