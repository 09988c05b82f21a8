"""The pipeline of `pipeline.rounds`, and the process that runs it until it is killed.

    python -m proof.pipeline.driver DIRECTORY SERVERS MASTER [--once]

With --once it ends when everything is done, and leaves what a reader of the Hive table finds in a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines import Pipeline, Settings, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.runner import Run
from penstock.pipelines.runtime.spark.session import open_session
from penstock.pipelines.sinks.hive import HiveTable
from penstock.pipelines.sinks.sql import SqlTable
from penstock.pipelines.sinks.topic import TopicSink
from penstock.pipelines.steps import parse_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUT, OUTPUT, DEAD = "rounds-input", "rounds-output", "rounds-dead"
TABLE = "numbers"
# Two tasks at a time, each tried four times as on a cluster: a worker that dies is not the query's end.
LOCAL_MASTER = "local[2,4]"


def database_of(directory: Path) -> Path:
    return directory / "numbers.db"


def hive_file_of(directory: Path) -> Path:
    """What the Hive table held when everything was done: a JSON list of numbers."""
    return directory / "hive.json"


def checkpoint_of(directory: Path) -> Path:
    return directory / "checkpoint"


def numbered(directory: Path, servers: str) -> Pipeline:
    """Records `{"number": n}` go to a topic, a Hive table and an SQL table; what is none goes to the dead letters."""
    return Pipeline(
        name="rounds",
        sources=(Topic(INPUT),),
        steps=(parse_json("number bigint, bucket int"),),
        sinks=(
            TopicSink(OUTPUT, key="CAST(number AS STRING)", value="CAST(number AS STRING)"),
            HiveTable(TABLE, partition_by=("bucket",)),
            SqlTable(f"sqlite:///{database_of(directory)}", TABLE, tasks=2, name="sql"),
        ),
        dead_letters=TopicSink(DEAD),
        settings=Settings(
            bootstrap_servers=servers,
            checkpoint=str(checkpoint_of(directory)),
            trigger="100 milliseconds",
            parallelism=2,
            spark=_session_settings(directory),
        ),
    )


def _session_settings(directory: Path) -> dict[str, str]:
    return {
        "spark.driver.memory": "1g",
        # A driver of these rounds does not live long enough for the second compiler to pay.
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{directory}/metastore;create=true",
        "spark.local.dir": str(directory / "local"),
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }


def run(directory: Path, servers: str, master: str, once: bool) -> None:
    pipeline = numbered(directory, servers)
    spark = open_session(pipeline, master)
    try:
        running = Run(spark, pipeline, once=once)
        running.start()
        running.wait()
        if once:
            _keep_hive_rows(spark, hive_file_of(directory))
    finally:
        spark.stop()


def _keep_hive_rows(spark: SparkSession, kept: Path) -> None:
    kept.write_text(json.dumps([row.number for row in spark.table(TABLE).select("number").collect()]))


def exit_code(
    run: Callable[[Path, str, str, bool], None], directory: str, servers: str, master: str, *more: str
) -> int:
    """Of a process that does this with the arguments it was given."""
    try:
        run(Path(directory), servers, master, "--once" in more)
    except PipelineError as error:
        print(f"{error.message}\n{error.hint}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(run, *sys.argv[1:]))
