"""The result for a person at a terminal, and the same dated in docs/benchmarks.md."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

from rich.console import Console
from rich.table import Table

from apache_kafka.jars import kafka_version
from bench.errors import BenchError
from bench.rows import HEADINGS, Comparison

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- result: begin -->", "<!-- result: end -->"
RIGHT_ALIGNED = {2, 3, 4}


def print_table(comparisons: list[Comparison], title: str = "", headings: tuple[str, ...] = HEADINGS) -> None:
    table = Table(title=title or f"medians; ratio is Penstock to Apache Kafka {kafka_version()}")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index in RIGHT_ALIGNED else "left")
    styles = {True: "green", False: "red", None: ""}
    for comparison in comparisons:
        table.add_row(*comparison.cells(), style=styles[comparison.is_met])
    # Wide enough for every column even when the output goes to a file.
    Console(width=max(160, Console().width)).print(table)


def describe_machine() -> str:
    memory_gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    client = importlib.metadata.version("confluent-kafka")
    return (
        f"{os.cpu_count()} cores, {memory_gigabytes:.0f} GB of memory, {platform.system()} on {platform.machine()}, "
        f"Python {platform.python_version()}, Apache Kafka {kafka_version()}, confluent-kafka {client}"
    )


def markdown(comparisons: list[Comparison], rounds: int) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    intro = f"Measured on {today}, medians of {rounds} alternating rounds: {describe_machine()}."
    return "\n".join([intro, "", *table_lines(comparisons)])


def table_lines(comparisons: list[Comparison], headings: tuple[str, ...] = HEADINGS) -> list[str]:
    rules = ["---:" if index in RIGHT_ALIGNED else "---" for index in range(len(headings))]
    rows = [headings, tuple(rules), *(comparison.cells() for comparison in comparisons)]
    return [f"| {' | '.join(row)} |" for row in rows]


def write_document(comparisons: list[Comparison], rounds: int, document: Path = DOCUMENT) -> None:
    replace_result(markdown(comparisons, rounds), BEGIN, END, document)


def replace_result(result: str, begin: str, end: str, document: Path = DOCUMENT) -> None:
    """Replace what is between the two lines; what people wrote around it stays."""
    text = document.read_text()
    if begin not in text or end not in text:
        raise BenchError(f"{document.name} has no place for the result: it needs the lines {begin} and {end}")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    document.write_text(f"{before}{begin}\n\n{result}\n\n{end}{after}")
