"""A pipeline that a test runs elsewhere: by `penstock pipeline run`, and as a script of its own under spark-submit:

spark-submit cluster_job.py BOOTSTRAP SOURCE TARGET CHECKPOINT
"""

from __future__ import annotations

import sys

from penstock.pipelines import Pipeline, Topic
from penstock.pipelines.runtime.runner import Run, with_settings
from penstock.pipelines.runtime.spark.session import open_session
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink
from penstock.pipelines.steps import enrich, filter_rows, select
from penstock.pipelines.steps.address_ranges import AddressRanges


def suspicious(source: str = "addresses", target: str = "suspicious") -> Pipeline:
    """Values are addresses; those of 10.0.0.0/8 go on. The lookup is Python, so executors must find us."""
    lookup = enrich(AddressRanges(("10",)), "value", into="is_suspicious")
    return Pipeline(
        name="suspicious",
        sources=(Topic(source),),
        steps=(select("CAST(value AS STRING) AS value"), lookup, filter_rows("is_suspicious")),
        sinks=(TopicSink(target, create=TopicSettings(partitions=2)),),
    )


def main(bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    pipeline = with_settings(suspicious(source, target), bootstrap_servers=bootstrap, checkpoint=checkpoint)
    spark = open_session(pipeline)
    run = Run(spark, pipeline, once=True)
    run.start()
    run.wait()
    print(f"done on {spark.sparkContext.master}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
