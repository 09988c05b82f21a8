"""Run by a test with BOOTSTRAP, TOPIC and the URL of an HDFS: checkpoint, lake and Hive's warehouse are all there.

Prints as JSON what the Hive table holds, and how many files the lake had before and after its compaction.
"""

from __future__ import annotations

import json
import os
import sys

from penstock.pipelines import Pipeline, Settings, Topic
from penstock.pipelines.runtime.runner import Run
from penstock.pipelines.runtime.spark.session import open_session
from penstock.pipelines.sinks.hive import HiveTable
from penstock.pipelines.sinks.lake import Lake
from penstock.pipelines.steps import parse_json


def archive(bootstrap: str, topic: str, url: str) -> Pipeline:
    return Pipeline(
        name="archive",
        sources=(Topic(topic),),
        steps=(parse_json("n bigint, day date"),),
        sinks=(Lake(f"{url}/lake", format="json", date_column="day"), HiveTable("numbers", partition_by=("day",))),
        settings=Settings(
            bootstrap_servers=bootstrap,
            checkpoint=f"{url}/checkpoint",
            max_records_per_batch=20,
            parallelism=2,
            spark={
                "spark.sql.warehouse.dir": f"{url}/warehouse",
                "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{os.getcwd()}/metastore;create=true",
            },
        ),
    )


def main(bootstrap: str, topic: str, url: str) -> None:
    pipeline = archive(bootstrap, topic, url)
    spark = open_session(pipeline, "local[2,4]")
    run = Run(spark, pipeline, once=True)
    run.start()
    run.wait()
    lake = pipeline.sinks[0]
    assert isinstance(lake, Lake)
    compacted = lake.compact(spark)
    in_hive = sorted(row.n for row in spark.table("numbers").collect())
    spark.stop()
    print(json.dumps({"compacted": [compacted.files_before, compacted.files_after], "hive": in_hive}))


if __name__ == "__main__":
    main(*sys.argv[1:])
