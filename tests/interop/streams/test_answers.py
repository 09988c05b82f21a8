"""The answers that are kept beside the cases are those of Kafka Streams."""

from __future__ import annotations

import json
from pathlib import Path

from apache_kafka.jars import kafka_version
from kafka_streams.jars import streams_version
from tests.interop.streams.case_files import ANSWERS, load_cases
from tests.interop.streams.oracle import ask_driver


def test_the_test_driver_still_answers_so_when_every_case_is_piped(oracle_classes: Path) -> None:
    cases = [case for case in load_cases().values() if case.judge == "driver"]
    kept = {case.name: json.loads((ANSWERS / case.path.name).read_text()) for case in cases}
    assert kept == ask_driver(oracle_classes, cases), "python -m tests.interop.streams.answers writes them anew"


def test_every_answer_has_a_case_when_cases_are_renamed() -> None:
    assert {path.stem for path in ANSWERS.glob("*.json")} == set(load_cases())


def test_the_judges_are_of_one_release_when_kafka_is_updated() -> None:
    assert streams_version() == kafka_version()
