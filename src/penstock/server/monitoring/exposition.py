"""Renders the broker's numbers in the Prometheus text format, when somebody scrapes.

A scrape reads the numbers and writes the text on the broker's loop, in slices (ADR 13): a broker with thousands of
partitions goes on serving its clients. A thread would not help, since both are Python code. The rules:

- Scrapes that come while a scrape is under way share its text. However many scrapers there are, one scrape runs.
- A scrape that nobody waits for any more is given up.
- The text is written here, 0.5 us a line: prometheus_client needs 10 us. prometheus_client has the numbers of the
  process; it takes 100 ms and 5 MB to import, so it is imported in a thread, at the first scrape.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import platform
from collections.abc import Iterator
from typing import NamedTuple

from penstock.broker.slices import Slices, Work
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.metrics.metric import Metric
from penstock.core.metrics.samples import Histogram, Labels, Sample
from penstock.core.metrics.table import BY_NAME, METRICS, PROCESS_SOURCE

# Lines written between two looks at the time: 30 us.
_LINES_PER_STEP = 64
_TOPICS_SOURCE = "topics"
# What a label's value must not contain as it is.
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class MetricSamples(NamedTuple):
    metric: Metric
    samples: list[Sample]


Snapshot = list[MetricSamples]


class _Scrape:
    """A scrape under way, and how many wait for its text."""

    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Task[bytes]) -> None:
        self.task = task
        self.waiting = 0


class Exposition:
    def __init__(self, metrics: BrokerMetrics, version: str, slices: Slices) -> None:
        """`slices` are those of the broker, so that a scrape takes turns with large requests."""
        unknown = metrics.gauge_names - BY_NAME.keys()
        if unknown:
            raise ValueError(f"gauges that the table of metrics does not have: {', '.join(sorted(unknown))}")
        self._metrics = metrics
        self._slices = slices
        self._build = (version, platform.python_version(), platform.system().lower())
        self._scrape: _Scrape | None = None

    async def render_metrics(self) -> bytes:
        """Who joins a scrape that is under way may get numbers that are older than the call, by the time of one scrape
        at most.
        """
        scrape = self._scrape
        if scrape is None or scrape.task.done():
            scrape = self._scrape = _Scrape(asyncio.create_task(self._render(), name="scrape"))
        scrape.waiting += 1
        try:
            return await asyncio.shield(scrape.task)
        finally:
            scrape.waiting -= 1
            if not scrape.waiting:
                scrape.task.cancel()  # does nothing to a task that is done
                if self._scrape is scrape:
                    self._scrape = None

    async def _render(self) -> bytes:
        snapshot = await self._slices.run(self.take_snapshot())
        text = await self._slices.run(render_text(snapshot))
        return text + await asyncio.to_thread(_render_process)

    def take_snapshot(self) -> Work[Snapshot]:
        gauges = yield from self._metrics.read_gauges()
        topics = yield from self._metrics.topics.read()
        snapshot: Snapshot = []
        for metric in METRICS:
            counters, _, attribute = metric.source.partition(".")
            if metric.name == "penstock_build_info":
                samples: list[Sample] = [(self._build, 1)]
            elif not counters:
                samples = gauges.get(metric.name, [])
            elif counters == _TOPICS_SOURCE:
                samples = topics[attribute]
            elif counters == PROCESS_SOURCE:
                continue
            else:
                samples = list(getattr(self._metrics, counters).samples(attribute))
            if samples:
                snapshot.append(MetricSamples(metric, samples))
            yield
        return snapshot


# ---- text exposition format 0.0.4


def render_text(snapshot: Snapshot) -> Work[bytes]:
    families: list[bytes] = []
    known: dict[tuple[str, ...], dict[Labels, str]] = {}  # texts of labels: a partition has several metrics
    for reading in snapshot:
        family = yield from _render_family(reading, known.setdefault(reading.metric.labels, {}))
        families.append(family)
    return b"".join(families)


def _render_family(reading: MetricSamples, known: dict[Labels, str]) -> Work[bytes]:
    (name, kind, label_names, _, _, doc), samples = reading
    lines = [f"# HELP {name} {doc}\n# TYPE {name} {kind}\n"]
    for count, (labels, value) in enumerate(samples):
        if count % _LINES_PER_STEP == 0:
            yield
        label_text = known.get(labels)
        if label_text is None:
            label_text = known[labels] = ",".join(map(_label_pair, label_names, labels))
        if isinstance(value, Histogram):
            lines.extend(_histogram_lines(name, label_text, value))
        else:
            braced = f"{{{label_text}}}" if label_text else ""
            lines.append(f"{name}{braced} {value if type(value) is int else _number(value)}\n")
    return "".join(lines).encode()


def _label_pair(name: str, value: str) -> str:
    return f'{name}="{value.translate(_ESCAPES)}"'


def _number(value: float) -> str:
    if type(value) is int:
        return str(value)  # whole, where a float would be rounded
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


def _histogram_lines(name: str, label_text: str, histogram: Histogram) -> Iterator[str]:
    """Buckets are cumulative: each counts what is below its bound."""
    before = f"{label_text}," if label_text else ""
    bounds = [*map(_number, map(float, histogram.bounds)), "+Inf"]
    count = 0
    for bound, count in zip(bounds, itertools.accumulate(histogram.counts), strict=True):
        yield f'{name}_bucket{{{before}le="{bound}"}} {count}\n'
    braced = f"{{{label_text}}}" if label_text else ""
    yield f"{name}_count{braced} {count}\n"
    yield f"{name}_sum{braced} {_number(histogram.total)}\n"


def _render_process() -> bytes:
    """Asks the operating system, so it runs in a thread."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return generate_latest(registry)
