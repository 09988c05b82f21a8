"""What a measurement found: the same numbers as lines for people and as one JSON document."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.cli.views.latency import Latencies


class Throughput(NamedTuple):
    records: int
    size: int  # bytes of keys and values
    seconds: float
    failed: int = 0

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds > 0 else 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.size / 1_000_000 / self.seconds if self.seconds > 0 else 0.0


def report_document(kind: str, throughput: Throughput, latencies: Latencies | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "test": kind,
        "records": throughput.records,
        "bytes": throughput.size,
        "seconds": round(throughput.seconds, 3),
        "records_per_second": round(throughput.records_per_second, 1),
        "megabytes_per_second": round(throughput.megabytes_per_second, 3),
        "failed": throughput.failed,
    }
    if latencies is not None:
        document["latency_ms"] = latencies.summary()
    return document


def report_fields(throughput: Throughput, latencies: Latencies | None) -> list[tuple[str, object]]:
    fields: list[tuple[str, object]] = [
        ("Records", f"{throughput.records:,} in {throughput.seconds:.2f} s"),
        ("Throughput", f"{throughput.records_per_second:,.0f} records/s, {throughput.megabytes_per_second:,.2f} MB/s"),
    ]
    if throughput.failed:
        fields.append(("Failed", f"{throughput.failed:,}"))
    if latencies is not None and latencies.count:
        numbers = "  ".join(f"{name} {format_ms(value)}" for name, value in latencies.summary().items())
        fields.append(("Latency", f"{numbers} (ms)"))
    return fields


def format_ms(value: float) -> str:
    """Three significant digits are all a measurement deserves."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
