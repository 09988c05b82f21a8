"""A driver that runs one INSERT INTO and can be held in a task: see test_sql_insert.

python inserting_job.py BOOTSTRAP CHECKPOINT HOLDS REGISTRY STATEMENT

The statement runs when a line comes on standard input; Spark is up by then. The function `hold(id)` of SQL gives its
argument back. In the task whose number is in the file HOLDS/task it makes the file HOLDS/reached, after some rows, and
waits for ever.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from penstock.pipelines.sql.insert import InsertOptions, insert
from penstock.pipelines.sql.statements import Insert, parse_statement
from penstock.pipelines.sql.tables import register

# More than Spark hands to a function of Python at once: the rows before have gone on to the producer.
ROWS_BEFORE = 150


def holding(holds: Path) -> Callable[[int], int]:
    seen = itertools.count()

    def hold(number: int) -> int:
        context = TaskContext.get()
        task = holds / "task"
        is_here = context is not None and task.exists() and task.read_text() == str(context.partitionId())
        if is_here and next(seen) >= ROWS_BEFORE:
            time.sleep(0.3)  # the producer lingers for a moment
            (holds / "reached").touch()
            time.sleep(600)
        return number

    return hold


def main() -> None:
    bootstrap, checkpoint, holds, registry, text = sys.argv[1:]
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        # Code that is made for a query pays for more rows than there are here.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "5",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[1]").appName("inserting")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.udf.register("hold", holding(Path(holds)), "bigint")
    statement = parse_statement(text)
    assert isinstance(statement, Insert)
    sys.stdin.readline()
    with register(spark, bootstrap, registry=registry or None, has_views=False) as tables:
        done = insert(tables, statement, InsertOptions(checkpoint=Path(checkpoint)))
    print(f"INSERTED {done.rows} {done.is_continued}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
