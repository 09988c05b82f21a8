"""A sink of one's own: each batch becomes a file of JSON lines.

penstock pipeline run examples/own_sink.py --set source=orders --set directory=/tmp/orders
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines import Batch, Pipeline, Settings, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.steps import select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class LineFiles:
    """Describes where rows go; holds plain values only."""

    directory: str
    name: str = "line-files"

    @property
    def session_settings(self) -> Mapping[str, str]:
        return {}  # nothing that a Spark session would have to be started with

    def describe(self, settings: Settings) -> str:
        return f"JSON lines in {self.directory}, exactly once"

    def open(self, spark: SparkSession, settings: Settings) -> OpenLineFiles:
        directory = Path(self.directory)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"{directory} cannot be made: {error.strerror}", "Choose another directory.") from error
        return OpenLineFiles(directory)


@dataclass(frozen=True)
class OpenLineFiles:
    """Writes batches in one run; would also hold connections, which `close` closes."""

    directory: Path

    def write(self, rows: DataFrame, batch: Batch) -> None:
        # The name follows from the batch, and the file appears whole: written again, the batch leaves the same file.
        target = self.directory / f"{batch.query_id}-{batch.id:08}.jsonl"
        partial = target.with_suffix(".partial")
        partial.write_text(
            "".join(f"{row.value}\n" for row in rows.selectExpr("to_json(struct(*)) AS value").collect())
        )
        os.replace(partial, target)

    def close(self) -> None:
        pass


def line_files(source: str = "orders", directory: str = "orders") -> Pipeline:
    text = select("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "timestamp")
    return Pipeline(name="line-files", sources=(Topic(source),), steps=(text,), sinks=(LineFiles(directory),))
