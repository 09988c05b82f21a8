"""Writes docs/reference/metrics.md from the table of metrics; `--check` fails when the page is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_check
from penstock.core.metrics.table import METRICS

PAGE = Path(__file__).parent.parent / "docs/reference/metrics.md"
HEAD = """# Metrics

Written by tools/generate_metrics_docs.py from the table in `core/metrics/table.py`.

Names that begin with `kafka_` are those that the Prometheus JMX exporter gives Kafka's own metrics; Kafka
has none for those that begin with `penstock_`. A histogram has the suffixes `_bucket`, `_sum` and `_count`
where Kafka's exporter shows quantiles and `_count`. The sample with an empty `topic` is the sum over all
topics, deleted ones included.

| metric | kind | labels | unit | what it tells |
|---|---|---|---|---|
"""


def render() -> str:
    rows = []
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.unit} | {metric.doc} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render()))
