"""Renders the broker's numbers in the Prometheus text format, when somebody scrapes.

prometheus_client takes 100 ms and 5 MB to import, so it is imported at the first scrape and never by a broker that
nobody monitors. A scrape has two halves: `take_snapshot` copies the numbers on the broker's loop, where alone they
move; `render` turns them into text in a worker thread, so that a broker with thousands of partitions does not stall
its clients.
"""

from __future__ import annotations

import asyncio
import itertools
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.metrics.counters import BrokerMetrics, Histogram, Sample
from penstock.core.metrics.table import BY_NAME, METRICS, PROCESS_SOURCE, Metric, MetricKind

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family


class Reading(NamedTuple):
    metric: Metric
    samples: list[Sample]


Snapshot = list[Reading]


class Exposition:
    def __init__(self, metrics: BrokerMetrics, version: str) -> None:
        unknown = metrics.gauge_names - BY_NAME.keys()
        if unknown:
            raise ValueError(f"gauges that the table of metrics does not have: {', '.join(sorted(unknown))}")
        self._metrics = metrics
        self._build = (version, platform.python_version(), platform.system().lower())

    async def render_metrics(self) -> bytes:
        return await asyncio.to_thread(self.render, self.take_snapshot())

    def take_snapshot(self) -> Snapshot:
        return [
            Reading(metric, samples)
            for metric in METRICS
            if metric.source != PROCESS_SOURCE and (samples := list(self._samples(metric)))
        ]

    def _samples(self, metric: Metric) -> Iterator[Sample]:
        if metric.name == "penstock_build_info":
            yield self._build, 1
        elif metric.source:
            counters, attribute = metric.source.split(".")
            yield from getattr(self._metrics, counters).samples(attribute)
        else:
            yield from self._metrics.read_gauge(metric.name)

    def render(self, snapshot: Snapshot) -> bytes:
        """Text exposition format 0.0.4; safe in any thread."""
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_SnapshotCollector(snapshot))
        ProcessCollector(registry=registry)
        return generate_latest(registry)


class _SnapshotCollector:
    """What prometheus_client calls a custom collector: it yields finished families."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
        return map(_build_family, self._snapshot)


def _build_family(reading: Reading) -> Family:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    metric, samples = reading
    if metric.kind is MetricKind.HISTOGRAM:
        histograms = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for labels, value in samples:
            assert isinstance(value, Histogram), f"{metric.name} is a histogram in the table only"
            histograms.add_metric(labels, _cumulative_buckets(value), value.total)
        return histograms
    build = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = build(metric.name, metric.doc, labels=metric.labels)
    for labels, value in samples:
        assert not isinstance(value, Histogram), f"{metric.name} is not a histogram in the table"
        family.add_metric(labels, value)
    return family


def _cumulative_buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, map(float, histogram.bounds)), "+Inf"]
    return list(zip(bounds, itertools.accumulate(histogram.counts), strict=True))
