"""What Kafka Streams answers to the same records: see tests/interop/streams.

Here all records of a case are there at once, so that nothing is late and of a table the last values come out. What goes
step by step takes ten seconds a case, and is in tests/interop/streams/test_steps.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.streams import differences
from tests.interop.streams.case_files import load_case, load_cases
from tests.interop.streams.differences import DIFFERENCES, expected
from tests.interop.streams.piped import answers_of_penstock
from tests.interop.streams.steps import IN_STEPS, WITHOUT_TIMES, timeless

GUIDE = Path(__file__).parents[3] / "docs/guides/coming-from-kafka-streams.md"
AT_ONCE = [name for name in load_cases() if name not in IN_STEPS]


@pytest.mark.parametrize("name", AT_ONCE)
def test_the_answer_is_that_of_kafka_streams_when_all_records_are_there(spark: SparkSession, name: str) -> None:
    case = load_case(name)
    found, kafka = answers_of_penstock(case, spark, step=False), expected(case)
    if name in WITHOUT_TIMES:
        found, kafka = timeless(found), timeless(kafka)
    assert found == kafka


def test_the_guide_names_each_difference_when_answers_differ() -> None:
    names = {name for name, value in vars(differences).items() if any(value is each for each in DIFFERENCES.values())}
    assert len(names) == len(DIFFERENCES)
    text = GUIDE.read_text()
    assert not [name for name in names if f"`{name}`" not in text]
