"""Run by a test with BOOTSTRAP and TOPIC: tasks fail after their transaction is committed, and the master tries again.

Prints as JSON, per task, the attempt that succeeded and whether it found its rows written already.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from penstock.pipelines.options import OptionScope
from penstock.pipelines.topic_writing.rows import plan_columns
from penstock.pipelines.topic_writing.task import RESULT_SCHEMA, TaskWrite
from penstock.pipelines.topic_writing.write_options import parse_sink_options


def main(bootstrap: str, topic: str) -> None:
    given = {"guarantee": "exactly-once", "queryId": topic, "batchId": "0", "sinkName": "retried", "topic": topic}
    options = parse_sink_options({"kafka.bootstrap.servers": bootstrap} | given, OptionScope.BATCH_WRITE)
    task = TaskWrite(options, plan_columns([("value", "string")], topic))

    def write_and_fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for written in list(task.in_arrow(batches)):
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0:
                raise ArithmeticError("after the commit")
            attempt = pa.array([context.attemptNumber()], pa.int32())
            yield written.append_column("attempt", attempt)

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]").appName("retrying")
    for name in ("bindAddress", "host"):
        builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.range(0, 100, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    done = rows.mapInArrow(write_and_fail_once, f"{RESULT_SCHEMA}, attempt int").collect()
    spark.stop()
    done.sort(key=lambda written: int(written.task))
    print(json.dumps({"attempts": [each.attempt for each in done], "was_there": [each.was_there for each in done]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
