"""A case piped through TopologyTest."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from penstock.streams import TopologyTest
from penstock.streams.topology_test import Record as TestRecord
from tests.interop.streams.applications import build
from tests.interop.streams.case_files import Case, Record, comparable


def answers_of_penstock(case: Case, spark: SparkSession, *, step: bool) -> dict[str, dict[str, Any]]:
    """What can be compared of each output. With `step` each of the case's steps is a micro-batch of its own."""
    with TopologyTest(build(case), spark, step=step) as test:
        for records in case.steps:
            for topic in dict.fromkeys(record.topic for record in records):
                rows = [TestRecord(row.key, row.value, row.timestamp) for row in records if row.topic == topic]
                test.pipe(case.topic(topic), rows)
        return {
            name: comparable(output, [Record(row.key, row.value, row.timestamp) for row in test.read(case.topic(name))])
            for name, output in case.outputs.items()
        }
