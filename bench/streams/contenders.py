"""Who runs the queries: ours on Spark, Java's Kafka Streams, quix-streams. Each is a process until it is ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

from apache_kafka.jars import LOGGING, PeerUnavailableError, find_java
from bench.streams.applications import QUERIES
from kafka_streams.jars import fetch_streams_jars

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache"
CORES = 2
QUIX = "quixstreams==3.28.1"
# A join of two tables by a foreign key, one of two streams of which both sides may come first, tables that are grouped
# anew and global tables are not there; session windows are not either.
QUIX_QUERIES = ("q0", "q1", "q2", "q7", "count")


@dataclass(frozen=True, slots=True)
class Spec:
    query: str
    bootstrap: str
    directory: str
    records_per_batch: int = 0  # of ours; 0: all that is there
    is_in_real_time: bool = False  # of ours

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    queries: tuple[str, ...]
    command: Callable[[Spec], list[str]]
    group_prefix: str  # of its consumer groups, with the query's name behind
    output: str  # the topic of its results


def _ours(spec: Spec) -> list[str]:
    return [sys.executable, "-m", "bench.streams.ours", spec.to_json()]


def _java(spec: Spec) -> list[str]:
    classes = f"{compiled()}:{fetch_streams_jars()}/*"
    logging = f"-Dlog4j2.configurationFile={LOGGING / 'tools.properties'}"
    arguments = (spec.bootstrap, spec.query, spec.directory, str(CORES))
    return [find_java(), "-Xmx2g", logging, "-cp", classes, "NexmarkStreams", *arguments]


def _quix(spec: Spec) -> list[str]:
    return [str(quix_python()), str(HERE / "quix.py"), spec.to_json()]


OURS = Contender("Penstock", tuple(QUERIES), _ours, "nexmark-", "nexmark-out")
JAVA = Contender("Kafka Streams", tuple(QUERIES), _java, "java-nexmark-", "java-nexmark-out")
QUIX_STREAMS = Contender("quix-streams", QUIX_QUERIES, _quix, "quix-nexmark-", "quix-nexmark-out")
CONTENDERS = (OURS, JAVA, QUIX_STREAMS)


class Running:
    """A contender at work on one query. What it prints goes into a file of its directory."""

    def __init__(self, contender: Contender, spec: Spec) -> None:
        self.contender = contender
        self.spec = spec
        self._log = (Path(spec.directory) / "log").open("w+")
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = contender.command(spec)
        self.process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT, env=environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def said(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()[-3000:]


@cache
def compiled() -> Path:
    """The Java program's classes. Raises PeerUnavailableError."""
    directory = CACHE / "nexmark-classes"
    directory.mkdir(parents=True, exist_ok=True)
    command = [find_java("javac"), "-cp", f"{fetch_streams_jars()}/*", "-d", str(directory)]
    ended = subprocess.run(
        [*command, str(HERE / "java" / "NexmarkStreams.java")], capture_output=True, text=True, timeout=120, check=False
    )
    if ended.returncode != 0:
        raise PeerUnavailableError(f"the Java program was not compiled:\n{ended.stderr[-2000:]}")
    return directory


@cache
def quix_python() -> Path:
    """An environment of its own: it wants other versions of what we have. Raises PeerUnavailableError."""
    directory = CACHE / QUIX.replace("==", "-")
    python = directory / "bin" / "python"
    if not (directory / "complete").exists():
        venv.create(directory, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", QUIX]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if ended.returncode != 0:
            raise PeerUnavailableError(f"{QUIX} could not be installed:\n{ended.stderr[-2000:]}")
        (directory / "complete").touch()
    return python
