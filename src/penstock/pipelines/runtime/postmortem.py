"""Why a batch failed: finds the step, and the records that the batch had read.

Steps are pure and a batch's offsets are in the checkpoint, so a postmortem can read the batch again and try the steps
one after another, writing nowhere, until one fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipelines.causes import first_cause
from penstock.pipelines.kafka.offsets_json import Offsets, read_reported, to_json
from penstock.pipelines.pipeline import Pipeline, Source, Step
from penstock.pipelines.runtime.batch_writing import combined, good_rows
from penstock.pipelines.runtime.query_plan import QueryPlan, step_name
from penstock.pipelines.source.offsets import EARLIEST
from penstock.pipelines.topic_source import FORMATS, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_OFFSETS = "-"
_LINES_BEFORE_OFFSETS = 2  # the format's version, the batch's metadata


class UnreadableError(Exception):
    """The rows of a failed batch could not be read again."""


@dataclass(frozen=True, slots=True)
class FailedBatch:
    batch_id: int
    # Per source, in the query's order: from (empty for the first batch) and to.
    ranges: tuple[tuple[Offsets, Offsets], ...]

    def __str__(self) -> str:
        places = [
            f"topic {place.topic}, partition {place.partition}, offsets {before.get(place, 0)} to {end - 1}"
            for before, after in self.ranges
            for place, end in sorted(after.items())
            if end > before.get(place, 0)
        ]
        return "; ".join(places)


def find_failed_batch(spark: SparkSession, checkpoint: str) -> FailedBatch | None:
    """The newest batch whose offsets were written down and whose end was not."""
    planned, done = _batches(spark, checkpoint, "offsets"), _batches(spark, checkpoint, "commits")
    if not planned or (done and max(done) >= max(planned)):
        return None
    batch_id = max(planned)
    after = _offsets(spark, f"{checkpoint}/offsets/{batch_id}")
    before = _offsets(spark, f"{checkpoint}/offsets/{batch_id - 1}") if batch_id - 1 in planned else [{} for _ in after]
    return FailedBatch(batch_id, tuple(zip(before, after, strict=False)))


def find_failing_step(spark: SparkSession, pipeline: Pipeline, plan: QueryPlan, failed: FailedBatch) -> str | None:
    """The name of the first step that fails on the rows of the batch; None: all of them pass, so it was not a step.
    Raises UnreadableError when the rows cannot be read again; then the steps may or may not have failed."""
    sources = plan.input.sources
    if len(failed.ranges) != len(sources):
        return None
    frames = _read_again(spark, pipeline, sources, failed)
    if len(frames) != len(sources):
        return None
    failing, rows = _try_steps(plan.input.steps, combined(plan.input, frames))
    if failing is not None:
        return failing
    failing, rows = _try_steps(plan.steps, good_rows(rows, plan.keeps_dead_letters))
    if failing is not None:
        return failing
    ways = dict.fromkeys(output.steps for output in plan.outputs if not output.takes_errors)
    return next((name for name, _ in (_try_steps(steps, rows) for steps in ways) if name is not None), None)


def _try_steps(steps: tuple[Step, ...], rows: DataFrame) -> tuple[str | None, DataFrame]:
    """Runs one more step each time, writing nowhere: the first that fails, and the rows as far as it went well."""
    from pyspark.errors import PySparkException

    for step in steps:
        try:
            after = step(rows)
            _compute(after)
        except PySparkException:
            return step_name(step), rows
        rows = after
    return None, rows


def _compute(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _read_again(
    spark: SparkSession, pipeline: Pipeline, sources: tuple[Source, ...], failed: FailedBatch
) -> list[DataFrame]:
    """Fewer frames than sources if one of the sources cannot read given offsets."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    frames: list[DataFrame] = []
    for source, (before, after) in zip(sources, failed.ranges, strict=True):
        if not isinstance(source, Topic):
            break
        reader = spark.read.format(FORMATS[pipeline.settings.engine])
        try:
            frames.append(reader.options(**_options(source, pipeline, before, after)).load())
            _compute(frames[-1])
        except (Py4JError, PySparkException) as error:
            raise UnreadableError(first_cause(str(error))) from error
    return frames


def _options(source: Topic, pipeline: Pipeline, before: Offsets, after: Offsets) -> dict[str, str]:
    options = source.reader_options(pipeline.settings) | {
        "startingOffsets": json.dumps(to_json({partition: before.get(partition, EARLIEST) for partition in after})),
        "endingOffsets": json.dumps(to_json(after)),
    }
    for name in ("subscribe", "subscribePattern", "maxOffsetsPerTrigger"):
        options.pop(name, None)
    assigned: dict[str, list[int]] = {}
    for topic, partition in sorted(after):
        assigned.setdefault(topic, []).append(partition)
    return options | {"assign": json.dumps(assigned)}


def _batches(spark: SparkSession, checkpoint: str, folder: str) -> set[int]:
    java = spark._jvm
    assert java is not None
    path = java.org.apache.hadoop.fs.Path(f"{checkpoint}/{folder}")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(path):
        return set()
    names = [entry.getPath().getName() for entry in files.listStatus(path)]
    return {int(name) for name in names if name.isdecimal()}


def _offsets(spark: SparkSession, path: str) -> list[Offsets]:
    lines = [row.value for row in spark.read.text(path, wholetext=True).collect()]
    return offsets_in(lines[0]) if lines else []


def offsets_in(text: str) -> list[Offsets]:
    """Per source, of a file in a checkpoint's `offsets`: where the batch ends."""
    kept = text.splitlines()[_LINES_BEFORE_OFFSETS:]
    return [{} if line == _NO_OFFSETS else read_reported(line) for line in kept]
