"""Asks Kafka Streams: compiles java/ with its jars and runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apache_kafka.jars import TOOL_OPTIONS, compile_java, find_java
from kafka_streams.jars import fetch_streams_jars
from tests.interop.streams.case_files import FOLDER, Case

RUN_TIMEOUT_S = 300

# What a case answers: by topic, the records in their order.
Answers = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def compile_oracle(directory: Path) -> Path:
    return compile_java((FOLDER / "java").glob("*.java"), directory, fetch_streams_jars())


def ask_driver(classes: Path, cases: Iterable[Case]) -> Answers:
    """What the TopologyTestDriver answers."""
    return _ask(classes, "driver", *(str(case.path) for case in cases))


def ask_application(classes: Path, bootstrap_servers: str, application: str, cases: Iterable[Case]) -> Answers:
    """What an application answers that runs on a broker, exactly once; all that the outputs have at its end."""
    return _ask(classes, "broker", bootstrap_servers, application, *(str(case.path) for case in cases))


def _ask(classes: Path, *arguments: str) -> Answers:
    """By case. Without a configuration log4j writes errors alone."""
    command = [find_java(), *TOOL_OPTIONS, "-cp", f"{classes}:{fetch_streams_jars()}/*", "Oracle", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    answers = map(json.loads, ended.stdout.splitlines())
    return {answer["case"]: answer["outputs"] for answer in answers}
