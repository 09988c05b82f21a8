"""The answers that are kept beside the cases are those of Kafka Streams."""

from __future__ import annotations

import json
from pathlib import Path

from apache_kafka.jars import kafka_version
from kafka_streams.jars import streams_version
from tests.interop.streams.case_files import ANSWERS, case_paths
from tests.interop.streams.oracle import ask_oracle


def test_the_test_driver_still_answers_so_when_every_case_is_piped(oracle_classes: Path) -> None:
    answers = ask_oracle(oracle_classes, "driver", *map(str, case_paths()))
    kept = {path.stem: json.loads(path.read_text()) for path in ANSWERS.glob("*.json")}
    assert kept == answers, "python -m tests.interop.streams.answers writes them anew"


def test_kafka_streams_is_of_the_release_that_the_other_judges_have() -> None:
    assert streams_version() == kafka_version()
