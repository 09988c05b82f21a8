"""Pipelines and an application that Spark would take, for test_taken_jobs.py."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from penstock.pipelines import Pipeline
from penstock.pipelines.pipeline import Settings
from penstock.pipelines.sinks.console import Console
from penstock.pipelines.topic_source import Topic
from penstock.streams import Streams, json

GONE = "gone-from-here"
LOSSES = {"failOnDataLoss": "false"}


@dataclass(frozen=True)
class Lines:
    """The lines of the files of a directory."""

    directory: str = "lines"

    @property
    def name(self) -> str:
        return self.directory

    def describe(self) -> str:
        return f"files in {self.directory}"

    def read(self, spark: SparkSession, settings: Settings) -> DataFrame:
        return spark.readStream.format("text").load(os.path.abspath(self.directory))


files = Pipeline("files", (Lines(),), (Console(),), settings=Settings(publish_runs=False))
lossy = Pipeline("lossy", (Topic(GONE, options=LOSSES),), (Console(),))

lossy_stream = Streams("lossy_stream", settings=Settings(publish_runs=False), fail_on_data_loss=False)
lossy_stream.stream(GONE, value=json("id long")).to("taken-out")
