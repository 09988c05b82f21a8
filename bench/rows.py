"""What is compared and what is aimed at: one line per row of the result, in the order of the goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.contenders import APACHE_KAFKA, PENSTOCK

# Contender -> figure key -> one value per round.
Samples = dict[str, dict[str, list[float]]]


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    title: str
    unit: str
    decimals: int = 0
    ratio_at_least: float | None = None
    ratio_at_most: float | None = None
    value_at_most: float | None = None
    value_at_least: float | None = None

    @property
    def goal(self) -> str:
        if self.ratio_at_least is not None:
            return f"{self.ratio_at_least:g} times or more"
        if self.ratio_at_most is not None:
            return f"{self.ratio_at_most:g} times or less"
        if self.value_at_most is not None:
            return f"{self.value_at_most:g} {self.unit} at most"
        if self.value_at_least is not None:
            return f"{self.value_at_least:g} {self.unit} at least"
        return ""

    def is_met(self, ours: float, theirs: float | None) -> bool | None:
        if self.value_at_most is not None:
            return ours <= self.value_at_most
        if self.value_at_least is not None:
            return ours >= self.value_at_least
        if theirs is None or self.goal == "":
            return None
        ratio = ours / theirs
        return ratio >= self.ratio_at_least if self.ratio_at_least is not None else ratio <= (self.ratio_at_most or 0)


# The loads whose CPU time is added up: figure key -> title.
CPU_PARTS = {
    "produce-1k": "produce 1 KiB",
    "consume-1k": "consume 1 KiB",
    "produce-100b": "produce 100 B",
    "consume-100b": "consume 100 B",
    "latency": "one record at a time",
    "pipelined-produce": "produce requests, 64 in flight",
    "pipelined-produce-few": "produce requests, 5 in flight",
    "pipelined-metadata": "metadata requests",
}

# Figures of which the worst round is judged too: figure key, where less is better.
WORST_SHOWN = ("steady-p99", "flooded-p99")

ROWS = (
    Row("produce-1k", "produce 1 KiB, acks=all", "MB/s", ratio_at_least=2),
    Row("produce-100b", "produce 100 B, acks=all", "MB/s", decimals=1, ratio_at_least=1.2),
    Row("consume-1k", "consume 1 KiB", "MB/s", ratio_at_least=1),
    Row("consume-100b", "consume 100 B", "MB/s", decimals=1, ratio_at_least=1),
    Row("fetch", "fetch 1 KiB records with a bare socket", "MB/s", ratio_at_least=1),
    Row("latency-p50", "one record at a time, acks=all: p50", "us", ratio_at_most=0.5),
    Row("latency-p99", "one record at a time, acks=all: p99", "us", ratio_at_most=0.5),
    Row("pipelined-produce", "one-record produce requests, 64 in flight", "requests/s", ratio_at_least=3),
    Row("pipelined-produce-few", "one-record produce requests, 5 in flight", "requests/s", ratio_at_least=3),
    Row("pipelined-metadata", "metadata requests, 64 in flight", "requests/s", ratio_at_least=3),
    Row("cpu", "broker CPU for the loads above", "s", decimals=2, ratio_at_most=0.25),
    *(Row(f"{key}.cpu", f"of that: {title}", "s", decimals=2) for key, title in CPU_PARTS.items()),
    Row("transactions", "transactions of 100 records, one after another", "1/s", ratio_at_least=1.5),
    Row("steady-p50", "end to end, 1,000 records of 1 KiB a second: p50", "us"),
    Row("steady-p99", "end to end, 1,000 records of 1 KiB a second: p99", "us", ratio_at_most=0.5),
    Row("steady-p99.9", "end to end, 1,000 records of 1 KiB a second: p99.9", "us"),
    Row("steady-p99.worst", "the worst round's p99", "us", ratio_at_most=0.5),
    Row("flooded-p50", "end to end while 200 MB/s come in beside it and segments of 1 GB are deleted: p50", "us"),
    Row("flooded-p99", "the same: p99", "us", ratio_at_most=0.5),
    Row("flooded-p99.worst", "the worst round's p99 of that", "us", ratio_at_most=0.5),
    Row("flooded-longest", "the longest of them", "ms", decimals=1),
    Row("flooded-rate", "what came in beside it", "MB/s"),
    Row("flooded-deleted", "what was deleted meanwhile", "MB"),
    Row("rebalance", "1,000 consumers in 100 groups rebalance", "s", decimals=3, ratio_at_most=1),
    Row("compaction-share", "producing while 1 GB is compacted, of what it is without", "%", value_at_least=80),
    Row("compaction-seconds", "the compaction meanwhile", "s", decimals=1),
    Row("deletion-p99", "one record at a time while a large topic is removed: p99", "ms", decimals=1),
    Row("deletion-longest", "the longest of them", "ms", decimals=1, value_at_most=100),
    Row("deletion-size", "what was removed meanwhile", "MB"),
    Row(
        "neighbour-p99",
        "p99 of small produces while another client asks for everything at 10,000 partitions",
        "us",
        value_at_most=10_000,
    ),
    Row("neighbour-p50", "the same: p50", "us"),
    Row("neighbour-worst", "the same: the longest", "us"),
    Row("neighbour-alone-p99", "the same without the other client: p99", "us"),
    Row("neighbour-questions", "what the other client was answered meanwhile", "1/s", decimals=1),
    Row("memory-idle", "resident memory, idle", "MB", value_at_most=80),
    Row("memory-loaded", "resident memory, after the loads", "MB", value_at_most=150),
    Row("start", "start until the first record is acknowledged: process", "s", decimals=3, value_at_most=0.4),
    Row("start-embedded", "start until the first record is acknowledged: embedded", "s", decimals=3, value_at_most=0.1),
    Row("start-1000-partitions", "the same with 1,000 partitions", "s", decimals=3, value_at_most=3),
    Row("idle-connections", "memory for 5,000 idle connections", "MB", decimals=1, value_at_most=100),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    row: Row
    ours: float
    theirs: float | None

    @property
    def is_met(self) -> bool | None:
        return self.row.is_met(self.ours, self.theirs)

    def cells(self) -> tuple[str, ...]:
        met = {True: "yes", False: "no", None: ""}[self.is_met]
        theirs = "" if self.theirs is None else f"{self.theirs:,.{self.row.decimals}f}"
        ratio = f"{self.ours / self.theirs:.2f}" if self.theirs else ""
        return (self.row.title, self.row.unit, f"{self.ours:,.{self.row.decimals}f}", theirs, ratio, self.row.goal, met)


def headings_beside(peer: str) -> tuple[str, ...]:
    return ("what", "unit", PENSTOCK.name, peer, "ratio", "goal", "met")


HEADINGS = headings_beside(APACHE_KAFKA.name)


def compare(samples: Samples, rows: Sequence[Row] = ROWS, peer: str = APACHE_KAFKA.name) -> list[Comparison]:
    ours, theirs = (medians(samples.get(name, {})) for name in (PENSTOCK.name, peer))
    return [Comparison(row, ours[row.key], theirs.get(row.key)) for row in rows if row.key in ours]


def medians(figures: dict[str, list[float]]) -> dict[str, float]:
    found = {key: median(values) for key, values in figures.items() if values}
    found |= {f"{key}.worst": max(figures[key]) for key in WORST_SHOWN if key in found}
    parts = [found[f"{key}.cpu"] for key in CPU_PARTS if f"{key}.cpu" in found]
    if parts:
        found["cpu"] = sum(parts)
    return found
