"""What Kafka Streams answers to the same records: see tests/interop/streams.

Here all records of a case are there at once, so that nothing is late and of a table the last values come out. What goes
step by step takes half a minute a case: one is here, the others are in tests/interop/streams/test_steps.py.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.interop.streams.case_files import load_case, load_cases
from tests.interop.streams.differences import expected
from tests.interop.streams.piped import answers_of_penstock
from tests.interop.streams.steps import IN_STEPS, WITHOUT_TIMES, timeless

AT_ONCE = [name for name in load_cases() if name not in IN_STEPS]


@pytest.mark.parametrize("name", AT_ONCE)
def test_the_answer_is_that_of_kafka_streams_when_all_records_are_there(spark: SparkSession, name: str) -> None:
    case = load_case(name)
    found, kafka = answers_of_penstock(case, spark, step=False), expected(case)
    if name in WITHOUT_TIMES:
        found, kafka = timeless(found), timeless(kafka)
    assert found == kafka


def test_late_records_count_as_in_kafka_streams_when_windows_have_a_grace(spark: SparkSession) -> None:
    case = load_case("tumbling-grace")
    assert answers_of_penstock(case, spark, step=True) == expected(case)
