"""What a scrape shows, read back with prometheus_client's own parser."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.core.metrics.counters import BrokerMetrics
from penstock.server.monitoring.exposition import Exposition


def scrape(metrics: BrokerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = asyncio.run(Exposition(metrics, "1.2.3").render_metrics()).decode()
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
    exposition = Exposition(metrics, "1.2.3")
    snapshot = exposition.take_snapshot()
    before = exposition.render(snapshot)
    api.total_time_ms.observe(1)
    metrics.topics.get("new").bytes_in += 1
    after = exposition.render(snapshot)
    assert [line for line in before.splitlines() if line.startswith(b"kafka")] == [
        line for line in after.splitlines() if line.startswith(b"kafka")
    ]


def test_gauge_is_refused_when_the_table_does_not_have_it() -> None:
    metrics = BrokerMetrics()
    metrics.register_gauge("kafka_log_log_sise", lambda: 1)
    with pytest.raises(ValueError, match="kafka_log_log_sise"):
        Exposition(metrics, "1.2.3")


def test_heavy_libraries_are_not_imported_when_nobody_scrapes() -> None:
    program = (
        "import sys, penstock.server.monitoring.exposition, penstock.server.monitoring.endpoints, penstock.core.logs\n"
        "heavy = {'prometheus_client', 'starlette', 'uvicorn', 'structlog'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
