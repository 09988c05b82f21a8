"""Progress for Prometheus."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.core.words.failure_text import describe_os_error
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.progress.query_progress import QueryProgress

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_ADDRESS = "127.0.0.1"
# Name, help, and how to read it from a query's progress.
_GAUGES: tuple[tuple[str, str, Callable[[QueryProgress], float]], ...] = (
    ("penstock_pipeline_lag_records", "Records that are there and not yet read.", lambda query: query.lag),
    ("penstock_pipeline_rows_per_second", "Rows a second in the last batch.", lambda query: query.rows_per_second),
    ("penstock_pipeline_batch_seconds", "How long the last batch took.", lambda query: query.batch_ms / 1000),
    ("penstock_pipeline_batch_id", "The last finished batch.", lambda query: query.batch_id),
)


class ProgressCollector:
    def __init__(self, pipeline: str, queries: Callable[[], Sequence[QueryProgress]]) -> None:
        self._pipeline = pipeline
        self._queries = queries

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        queries = self._queries()
        labels = ("pipeline", "query")
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for query in queries:
                gauge.add_metric((self._pipeline, query.query), value(query))
            yield gauge
        rows = CounterMetricFamily("penstock_pipeline_rows_read", "Rows read since the start.", labels=labels)
        written = CounterMetricFamily(
            "penstock_pipeline_rows_written",
            "Rows written since the start, dead letters included.",
            labels=(*labels, "sink"),
        )
        left_out = CounterMetricFamily(
            "penstock_pipeline_rows_left_out",
            "Rows left out since the start: late, behind the watermark; null_keys, which no group or table has.",
            labels=(*labels, "reason"),
        )
        for query in queries:
            rows.add_metric((self._pipeline, query.query), query.rows)
            for reason, count in query.left_out.items():
                left_out.add_metric((self._pipeline, query.query, reason), count)
            for sink, count in query.written.items():
                written.add_metric((self._pipeline, query.query, sink), count)
        yield rows
        yield written
        yield left_out


def check_port(port: int) -> None:
    """Before Spark starts. Raises PipelineError where the port cannot be served on."""
    if port <= 0:
        return
    try:
        with socket.create_server((_ADDRESS, port)):
            pass
    except (OSError, OverflowError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else "a port is at most 65535"
        raise PipelineError(
            f"there can be no metrics on port {port}: {reason}", "Set metrics_port to another one, or to 0 for any."
        ) from error


def serve(pipeline: str, queries: Callable[[], Sequence[QueryProgress]], port: int) -> int:
    """Serves /metrics on this machine until the process ends; returns the port."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(ProgressCollector(pipeline, queries))
    server, _ = start_http_server(port, addr=_ADDRESS, registry=registry)
    return int(server.server_address[1])
