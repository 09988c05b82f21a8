"""The result with Spark for a person at a terminal, and the same dated in docs/benchmarks.md."""

from __future__ import annotations

import datetime
import importlib.metadata

from bench.report import describe_machine, print_table, replace_result, table_lines
from bench.spark import SparkResult
from bench.spark_rows import HEADINGS, compare
from bench.spark_works import CORES
from spark_connector.jars import connector_version

BEGIN, END = "<!-- spark: begin -->", "<!-- spark: end -->"
# Work -> what its profile shows, and the unit of it. Where a name says its own unit there is none.
PROFILES = {
    "job": ("Where the time of the main job goes, in seconds per million lines, of the last round:", "s"),
    "job-latency": ("What a batch of the main job does at 2,000 lines a second, medians of the last round:", ""),
}


def print_result(result: SparkResult) -> None:
    title = f"medians; ratio is ours to Spark's own connector {connector_version()}, both on Penstock"
    print_table(compare(result), title, HEADINGS)
    for work, profile in result.profiles.items():
        title, unit = PROFILES[work]
        print(title)
        for what, figure in profile.items():
            print(f"  {what}: {figure:,.2f} {unit}".rstrip())
    if result.missing:
        print(f"no comparison: {result.missing}")


def write_result(result: SparkResult, rounds: int) -> None:
    replace_result("\n".join(document_lines(result, rounds)), BEGIN, END)


def document_lines(result: SparkResult, rounds: int) -> list[str]:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    spark = importlib.metadata.version("pyspark")
    how = f"medians of {rounds} alternating rounds, PySpark {spark} on local[{CORES}], connector {connector_version()}"
    lines = [f"Measured on {today}, {how}: {describe_machine()}.", "", *table_lines(compare(result), HEADINGS)]
    if result.missing:
        lines += ["", f"Not compared with Spark's own connector: {result.missing}."]
    for work, profile in result.profiles.items():
        title, unit = PROFILES[work]
        lines += ["", title, "", f"| what | {unit} |", "| --- | ---: |"]
        lines += [f"| {what} | {figure:,.2f} |" for what, figure in profile.items()]
    return lines
