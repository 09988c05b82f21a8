"""The row of a published number: its name, kind, labels, unit, source and meaning."""

from __future__ import annotations

import enum
from typing import NamedTuple


class MetricKind(enum.StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    unit: str
    source: str  # "<counter set of BrokerMetrics>.<attribute>"; empty for a gauge, whose source is registered by name
    doc: str


COUNTER, GAUGE, HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
Row = tuple[str, MetricKind, str, str, str]  # name with its labels in braces, kind, unit, source, doc


def section(prefix: str, *rows: Row) -> list[Metric]:
    metrics = []
    for name, kind, unit, source, doc in rows:
        stem, _, labels = name.rstrip("}").partition("{")
        metrics.append(Metric(f"{prefix}_{stem}", kind, tuple(filter(None, labels.split(","))), unit, source, doc))
    return metrics
