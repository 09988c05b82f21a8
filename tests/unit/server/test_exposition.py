"""What a scrape shows, read back with prometheus_client's own parser."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.broker.slices import Slices
from penstock.core.metrics.counters import BrokerMetrics, Survey
from penstock.core.metrics.table import METRICS
from penstock.core.steps import finish
from penstock.server.monitoring.exposition import Exposition, render_text

AT_ONCE = Slices(lambda: 0.0)  # time stands still, so that no slice is ever over


def scrape(metrics: BrokerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = asyncio.run(Exposition(metrics, "1.2.3", AT_ONCE).render_metrics()).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def key(name: str, labels: Mapping[str, str] | None = None) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted((labels or {}).items()))


def test_topic_counters_appear_with_their_sum_when_scraped() -> None:
    metrics = BrokerMetrics()
    metrics.topics.get("orders").messages_in += 3
    shown = scrape(metrics)
    assert shown[key("kafka_server_brokertopicmetrics_messagesin_total", {"topic": ""})] == 3
    assert shown[key("kafka_server_brokertopicmetrics_messagesin_total", {"topic": "orders"})] == 3


def test_buckets_are_cumulative_when_a_histogram_is_scraped() -> None:
    metrics = BrokerMetrics()
    api = metrics.requests.register("Fetch", 18)
    for milliseconds in (0.1, 0.7, 600, 99_999):
        api.total_time_ms.observe(milliseconds)
    shown = scrape(metrics)
    name = "kafka_network_requestmetrics_totaltimems"
    buckets = [shown[key(f"{name}_bucket", {"request": "Fetch", "le": le})] for le in ("0.5", "1.0", "500.0", "+Inf")]
    assert buckets == [1, 2, 2, 4]
    assert shown[key(f"{name}_count", {"request": "Fetch"})] == 4
    assert shown[key(f"{name}_sum", {"request": "Fetch"})] == pytest.approx(100_599.8)


def test_gauges_are_read_when_scraped_and_absent_without_a_source() -> None:
    metrics = BrokerMetrics()
    metrics.register_gauge("kafka_log_log_size", lambda: [(("orders", "0"), 4096)])
    shown = scrape(metrics)
    assert shown[key("kafka_log_log_size", {"topic": "orders", "partition": "0"})] == 4096
    assert key("kafka_server_replicamanager_leadercount") not in shown


def test_label_survives_when_it_has_quotes_and_line_breaks() -> None:
    metrics = BrokerMetrics()
    directory = 'a "strange"\npath\\'
    metrics.register_gauge("kafka_log_logmanager_logdirectoryoffline", lambda: [((directory,), 1)])
    assert scrape(metrics)[key("kafka_log_logmanager_logdirectoryoffline", {"logDirectory": directory})] == 1


def test_process_and_build_are_described_when_scraped() -> None:
    shown = scrape(BrokerMetrics())
    assert shown[key("process_resident_memory_bytes")] > 1_000_000
    (build,) = [dict(labels) for name, labels in shown if name == "penstock_build_info"]
    assert build["version"] == "1.2.3"


def test_snapshot_does_not_move_when_the_broker_counts_on() -> None:
    metrics = BrokerMetrics()
    api = metrics.requests.register("Fetch", 18)
    api.total_time_ms.observe(1)
    exposition = Exposition(metrics, "1.2.3", AT_ONCE)
    snapshot = finish(exposition.take_snapshot())
    before = finish(render_text(snapshot))
    api.total_time_ms.observe(1)
    metrics.topics.get("new").bytes_in += 1
    after = finish(render_text(snapshot))
    assert [line for line in before.splitlines() if line.startswith(b"kafka")] == [
        line for line in after.splitlines() if line.startswith(b"kafka")
    ]


def test_each_family_is_described_once_when_scraped() -> None:
    metrics = BrokerMetrics()
    metrics.register_gauge("kafka_log_log_size", lambda: [(("a", str(n)), n) for n in range(300)])
    lines = asyncio.run(Exposition(metrics, "1.2.3", AT_ONCE).render_metrics()).decode().splitlines()
    described = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(described) == len(set(described))
    assert set(described) <= {metric.name for metric in METRICS}
    assert sum(line.startswith("kafka_log_log_size{") for line in lines) == 300


@pytest.mark.parametrize(
    ("value", "text"),
    [(2**60 + 1, "1152921504606846977"), (0.25, "0.25"), (float("inf"), "+Inf"), (float("nan"), "NaN"), (True, "1.0")],
)
def test_number_is_written_as_prometheus_reads_it_when_scraped(value: float, text: str) -> None:
    metrics = BrokerMetrics()
    metrics.register_gauge("kafka_server_replicamanager_leadercount", lambda: value)
    shown = asyncio.run(Exposition(metrics, "1.2.3", AT_ONCE).render_metrics()).decode()
    assert f"\nkafka_server_replicamanager_leadercount {text}\n" in shown


class SlowBroker:
    """Metrics whose one survey takes many slices, and counts the passes that began and ended."""

    def __init__(self) -> None:
        self.metrics = BrokerMetrics()
        self.metrics.register_survey(["kafka_log_log_size"], self._survey)
        self.begun = self.ended = 0

    def _survey(self) -> Survey:
        self.begun += 1
        for _ in range(20):
            yield
        self.ended += 1
        return {"kafka_log_log_size": [(("t", "0"), self.begun)]}

    def exposition(self) -> Exposition:
        hours = itertools.count()
        return Exposition(self.metrics, "1.2.3", Slices(lambda: next(hours) * 3600.0))  # each step takes a slice


def test_scrapes_share_one_pass_when_they_come_at_once() -> None:
    broker = SlowBroker()

    async def run() -> list[bytes]:
        exposition = broker.exposition()
        together = await asyncio.gather(*(exposition.render_metrics() for _ in range(5)))
        return [*together, await exposition.render_metrics()]

    *together, alone = asyncio.run(run())
    assert len(set(together)) == 1
    assert (broker.begun, broker.ended) == (2, 2)
    assert alone != together[0]


def test_scrape_is_given_up_when_the_last_scraper_leaves() -> None:
    broker = SlowBroker()

    async def run() -> None:
        exposition = broker.exposition()
        scrapes = [asyncio.ensure_future(exposition.render_metrics()) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for scrape in scrapes:
            scrape.cancel()
        await asyncio.wait(scrapes)
        for _ in range(50):
            await asyncio.sleep(0)
        assert (broker.begun, broker.ended) == (1, 0)
        await exposition.render_metrics()

    asyncio.run(run())
    assert (broker.begun, broker.ended) == (2, 1)


def test_scrape_goes_on_when_one_of_two_scrapers_leaves() -> None:
    broker = SlowBroker()

    async def run() -> bytes:
        exposition = broker.exposition()
        leaver, stayer = (asyncio.ensure_future(exposition.render_metrics()) for _ in range(2))
        await asyncio.sleep(0)
        leaver.cancel()
        return await stayer

    assert b'kafka_log_log_size{topic="t",partition="0"} 1\n' in asyncio.run(run())
    assert (broker.begun, broker.ended) == (1, 1)


def test_gauge_is_refused_when_the_table_does_not_have_it() -> None:
    metrics = BrokerMetrics()
    metrics.register_gauge("kafka_log_log_sise", lambda: 1)
    with pytest.raises(ValueError, match="kafka_log_log_sise"):
        Exposition(metrics, "1.2.3", AT_ONCE)


def test_heavy_libraries_are_not_imported_when_nobody_scrapes() -> None:
    program = (
        "import sys, penstock.server.monitoring.exposition, penstock.server.monitoring.endpoints, penstock.core.logs\n"
        "heavy = {'prometheus_client', 'starlette', 'uvicorn', 'structlog'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
