"""The rounds of `python -m proof kills` with Java's client and, where Go is here, one of Go's beside
librdkafka, on Apache Kafka and on Penstock: what applications see with us alone, and where they wait much longer.

PYTHONPATH=tools .venv/bin/python -m apache_kafka.kills kills --rounds 30 --seed 7
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from apache_kafka.cluster import ApacheKafkaBrokers
from apache_kafka.go_program import build_go
from apache_kafka.jars import PeerUnavailableError, compile_java, java_command, kafka_version
from proof.frame import Say, Task, main
from proof.kills.applications import COPY_TOPIC, GRACE_S, READ_TOPIC, REPLICAS, librdkafka_applications
from proof.kills.journal import Journal, find_worse
from proof.kills.rounds import (
    AWAY_S,
    INTERNAL_TOPICS,
    PERIOD_S,
    Applying,
    KillReport,
    KillRounds,
    MakeServers,
    Servers,
    penstock_servers,
)
from proof.kinds import KINDS

_SOURCES = Path(__file__).parent / "java"
_HEAP_MB = 512  # four servers share the machine


class ProgramApplications:
    """A program in another language whose threads do what the applications of librdkafka do.

    It says "ready" when it has loaded and used its library, begins on a line of its standard input, and ends when that
    ends. Java loads its classes for seconds where the servers keep the cores busy.
    """

    def __init__(self, language: str, command: Sequence[str], journal: Journal) -> None:
        self._language = language
        self._command = command
        self._journal = journal
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name=f"{language} applications", daemon=True)

    def get_ready(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if said != "ready\n":
            self._process.kill()
            self._process.communicate()
            raise AssertionError(f"the program in {self._language} said {said!r} before it was ready")

    def start(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()
        self._reader.start()

    def end(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()

    def finish(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._journal.unfinished.append(self._language)
            self._process.kill()
        self._reader.join(GRACE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, name, value = line.rstrip("\n").split("=", 2)
            if what == "done":
                self._journal.note_wait(f"{self._language} {name}", int(value) / 1000)
            else:
                self._journal.note_error(f"{self._language} {name}", value)


@dataclass
class Comparison:
    ours: KillReport
    theirs: KillReport

    @property
    def worse(self) -> list[str]:
        return find_worse(self.ours.journal, self.theirs.journal)

    @property
    def is_sound(self) -> bool:
        return self.ours.is_sound and not self.worse

    def __str__(self) -> str:
        return "\n".join([str(self.theirs), str(self.ours), *(f"worse: {each}" for each in self.worse)])


def apache_kafka_servers(directory: Path) -> AbstractContextManager[Servers]:
    return ApacheKafkaBrokers(directory, REPLICAS, config=INTERNAL_TOPICS, heap_mb=_HEAP_MB)


def find_go(say: Say) -> Path | None:
    try:
        return build_go()
    except PeerUnavailableError as error:
        say(f"without a client of Go's: {error}")
        return None


def compare(task: Task, period_s: float = PERIOD_S, away_s: float = AWAY_S) -> Comparison:
    """The same rounds with both, one after the other."""
    with tempfile.TemporaryDirectory() as directory:
        classes = compile_java(_SOURCES.glob("*.java"), Path(directory))
        go = find_go(task.say)

        def make_applications(servers: str, journal: Journal) -> Sequence[Applying]:
            given = (servers, READ_TOPIC, COPY_TOPIC)
            commands = {"Java": java_command("Beginnings", *given, classes=classes)}
            if go is not None:
                commands["Go"] = [str(go), *given]
            programs = [ProgramApplications(name, command, journal) for name, command in commands.items()]
            return [*librdkafka_applications(servers, journal), *programs]

        def play(stage: str, make_servers: MakeServers) -> KillReport:
            scratch = task.scratch / stage.replace(" ", "-")
            return KillRounds(
                *(scratch, task.rounds, task.seed, stage, make_servers, make_applications),
                period_s=period_s,
                away_s=away_s,
                say=task.say,
            ).run()

        theirs = play(f"Apache Kafka {kafka_version()}", apache_kafka_servers)
        return Comparison(play("Penstock", penstock_servers), theirs)


def run(task: Task) -> Comparison:
    return compare(task)


if __name__ == "__main__":
    sys.exit(main([replace(kind, module="apache_kafka.kills") for kind in KINDS if kind.name == "kills"]))
