"""How far each query of a running pipeline has come: read from what Spark reports after every batch. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.pipelines.kafka.offsets_json import read_reported

LEFT_OUT = "penstock.left_out"
LATE = "late"


@dataclass(frozen=True, slots=True)
class QueryProgress:
    query: str
    batch_id: int = -1
    rows: int = 0  # read since the start
    rows_per_second: float = 0.0
    batch_ms: int = 0
    lag: int = 0  # records that are there and not yet read
    watermark: str = ""
    written: Mapping[str, int] = field(default_factory=dict)  # by sink, since the start
    left_out: Mapping[str, int] = field(default_factory=dict)  # rows by reason, since the start
    doing: str = ""  # what it is busy with at this moment, for people


def advance(before: QueryProgress, report: Mapping[str, Any], written: Mapping[str, int]) -> QueryProgress:
    """`report` is the JSON of a StreamingQueryProgress."""
    sources = report.get("sources", ())
    return QueryProgress(
        query=before.query,
        batch_id=int(report["batchId"]),
        rows=before.rows + sum(int(source.get("numInputRows") or 0) for source in sources),
        rows_per_second=float(report.get("processedRowsPerSecond") or 0.0),
        batch_ms=int(report.get("batchDuration") or 0),
        lag=sum(_lag(source) for source in sources),
        watermark=str(report.get("eventTime", {}).get("watermark", "")),
        written=dict(written),
        left_out=_sums(before.left_out, _left_out(report)),
    )


def _left_out(report: Mapping[str, Any]) -> Counter[str]:
    """Rows behind the watermark, as Spark counts them, and what steps have observed under names that begin with
    LEFT_OUT; the names of their columns are the reasons."""
    found: Counter[str] = Counter()
    for operator in report.get("stateOperators") or ():
        found[LATE] += int(operator.get("numRowsDroppedByWatermark") or 0)
    for name, columns in (report.get("observedMetrics") or {}).items():
        if name.startswith(LEFT_OUT):
            found.update({reason: int(count or 0) for reason, count in columns.items()})
    return found


def _sums(before: Mapping[str, int], now: Counter[str]) -> dict[str, int]:
    return {reason: count for reason, count in (Counter(before) + now).items() if count}


def _lag(source: Mapping[str, Any]) -> int:
    reached, latest = read_reported(source.get("endOffset")), read_reported(source.get("latestOffset"))
    return sum(max(0, offset - reached.get(partition, 0)) for partition, offset in latest.items())
