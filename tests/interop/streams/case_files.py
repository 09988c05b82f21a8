"""The cases: what comes into topics, and what Kafka Streams answers.

`cases/NAME.json` has the records in the order in which they come, in steps: where lateness matters, the next step comes
when the time of the one before has counted. `answers/NAME.json` has what Kafka Streams wrote, record by record, as
java/Oracle.java says (`python -m tests.interop.streams.answers` writes them anew). Two answers are equal if

    a stream    has the same records, with their times, in whatever order
    a table     has the same last value, with its time, for each key; a key whose last value is null is not there
    windows     have the same last value, with its time, for each key and window

The key `~` moves the time and is left out of every comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent
CASES, ANSWERS = FOLDER / "cases", FOLDER / "answers"
CLOCK = "~"


@dataclass(frozen=True, slots=True)
class Record:
    """`key`: text, or of a window an object of key, start and end. `value`: an object; a null field is not there."""

    key: Any
    value: Mapping[str, Any] | None
    timestamp: int
    topic: str = ""
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    kind: Literal["stream", "table", "windows"]
    columns: tuple[str, ...]  # that count


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    steps: tuple[tuple[Record, ...], ...]
    outputs: Mapping[str, Output]
    judge: Literal["driver", "broker"] = "driver"  # the test driver has no partitions
    prefix: str = ""  # of the topics, where a case runs twice on one broker

    @property
    def path(self) -> Path:
        return CASES / f"{self.name}.json"

    @property
    def records(self) -> list[Record]:
        return [record for step in self.steps for record in step]

    @property
    def inputs(self) -> list[str]:
        return sorted({record.topic for record in self.records})

    def topic(self, name: str) -> str:
        """A case's topics begin with its name, so that all cases fit onto one broker."""
        return f"{self.prefix}{self.name}.{name}"


def load_case(name: str, prefix: str = "") -> Case:
    file = json.loads((CASES / f"{name}.json").read_text())
    steps = tuple(tuple(Record(**record) for record in step) for step in file["steps"])
    outputs = {topic: Output(output["kind"], tuple(output["columns"])) for topic, output in file["outputs"].items()}
    return Case(name, steps, outputs, file.get("judge", "driver"), prefix)


def load_cases() -> dict[str, Case]:
    return {path.stem: load_case(path.stem) for path in sorted(CASES.glob("*.json"))}


def load_answers(name: str) -> dict[str, list[Record]]:
    file = json.loads((ANSWERS / f"{name}.json").read_text())
    return {topic: [Record(**record) for record in records] for topic, records in file.items()}


def kafka_answers(case: Case) -> dict[str, dict[str, Any]]:
    """What can be compared of each output."""
    answers = load_answers(case.name)
    return {topic: comparable(output, answers[topic]) for topic, output in case.outputs.items()}


def answers_text(answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A line per record, so that a difference is seen in a diff."""
    topics = [
        f" {json.dumps(topic)}: [" + ",".join(f"\n  {json.dumps(row, sort_keys=True)}" for row in rows) + "\n ]"
        for topic, rows in answers.items()
    ]
    return "{\n" + ",\n".join(topics) + "\n}\n"


def comparable(output: Output, records: Iterable[Record], *, with_times: bool = True) -> dict[str, Any]:
    """What two answers have to have in common, by key (of streams: by key and time).

    Without times where the order of topics decides them."""
    found: dict[str, Any] = {}
    for record in records:
        key = json.loads(record.key) if output.kind == "windows" and isinstance(record.key, str) else record.key
        key = str(key) if isinstance(key, int) else key  # 1, of a group of numbers, is written as text by Kafka Streams
        if key == CLOCK or (isinstance(key, dict) and key["key"] == CLOCK):
            continue
        value = None
        if record.value is not None:
            value = {name: record.value[name] for name in output.columns if record.value.get(name) is not None}
        if output.kind == "stream":
            found.setdefault(f"{json.dumps(key)} at {record.timestamp}", []).append(json.dumps(value, sort_keys=True))
        else:
            name = json.dumps(key, sort_keys=True)
            found.pop(name, None)
            if value is not None:
                found[name] = (value, record.timestamp) if with_times else value
    return {key: sorted(rows) if isinstance(rows, list) else rows for key, rows in sorted(found.items())}
