"""Cases of lateness and of tables that change, step by step, as streaming queries."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.interop.streams.case_files import load_case
from tests.interop.streams.differences import expected
from tests.interop.streams.piped import answers_of_penstock
from tests.interop.streams.steps import IN_STEPS


@pytest.mark.parametrize("name", sorted(IN_STEPS | {"foreign-key-join-many", "topic-pattern"}))
def test_the_answer_is_that_of_kafka_streams_when_time_moves_in_steps(spark: SparkSession, name: str) -> None:
    case = load_case(name)
    assert answers_of_penstock(case, spark, step=True) == expected(case)
