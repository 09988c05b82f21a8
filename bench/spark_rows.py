"""What is compared of Spark: one line per row of the result, in the order of the goals."""

from __future__ import annotations

from bench.rows import Comparison, Row, medians
from bench.spark import SparkResult
from bench.spark_works import OFFICIAL, PENSTOCK

ROWS = (
    Row("read-batch", "read in batch", "rows/s", ratio_at_least=1),
    Row("read-batch.cpu", "of that: CPU for a million rows", "s", decimals=2),
    Row("read-stream", "read as a stream, available now", "rows/s", ratio_at_least=1),
    Row("write", "write, at least once", "rows/s", ratio_at_least=1),
    Row("write.cpu", "of that: CPU for a million rows", "s", decimals=2),
    Row("write-once", "write, exactly once", "rows/s"),
    Row("write-once-share", "of what it is at least once", "%", value_at_least=70),
    Row("latency", "one record from topic to topic, at least once: p50", "ms", ratio_at_most=1.2),
    Row("latency-once", "the same, exactly once: p50", "ms"),
    Row("latency-pipeline", "the same as a pipeline, at least once: p50", "ms", ratio_at_most=1.2),
    Row("job", "main job: parse, lookup, three sinks, dead letters", "lines/s per core"),
    Row("job-whole", "main job with its counts per address and minute", "lines/s per core"),
    Row("job-latency-p50", "main job at 2,000 lines a second, line to result: p50", "s", decimals=2, value_at_most=1.5),
    Row("job-latency-p99", "the same: p99", "s", decimals=2, value_at_most=4),
    Row("job-latency-worst", "the same: the longest", "s", decimals=2),
    Row("job-lag-first", "its lag in the first minute: the largest", "lines", value_at_most=10_000),
    Row("job-lag-worst", "its lag meanwhile: the largest", "lines", value_at_most=4000),
    Row("job-lag", "its lag meanwhile: median", "lines"),
    Row("job-first", "its first result after Spark is up", "s", decimals=1, value_at_most=10),
    Row("job-session", "Spark's start before that", "s", decimals=1),
)
HEADINGS = ("what", "unit", 'format("penstock")', 'format("kafka")', "ratio", "goal", "met")


def compare(result: SparkResult) -> list[Comparison]:
    ours, theirs = medians(result.samples[PENSTOCK]), medians(result.samples[OFFICIAL])
    if "write" in ours and "write-once" in ours:
        ours["write-once-share"] = 100 * ours["write-once"] / ours["write"]
    return [Comparison(row, ours[row.key], theirs.get(row.key)) for row in ROWS if row.key in ours]
