"""The loads on brokers that have TLS and logins: throughput, single records, logins."""

from __future__ import annotations

from bench.contenders import CpuMeter
from bench.loads import (
    PRODUCE_CHUNK,
    Figures,
    Scale,
    consume,
    latencies_over,
    latency_figures,
    now_ms,
    produce,
    throughput_figures,
    topic_of,
)
from bench.preload import preload_uniformly
from bench.secured.brokers import DOORS, LOGIN, PLAIN, TLS, TLS_LOGIN, SecuredBroker
from bench.secured.sender import HOST
from bench.wire import RawConnection
from penstock.protocol.messages.api_versions import ApiVersionsRequest

VALUE_BYTES = 1024
# How the figures of a port begin.
LABELS = {PLAIN: "plain", TLS: "tls", LOGIN: "scram", TLS_LOGIN: "tls-scram"}
VERSIONS = ApiVersionsRequest(client_software_name="bench", client_software_version="1")


def measure_throughput(broker: SecuredBroker, scale: Scale) -> Figures:
    """The same over both ports, and what TLS leaves of it."""
    count = scale.megabytes_large * 1_000_000 // VALUE_BYTES // PRODUCE_CHUNK * PRODUCE_CHUNK
    megabytes = count * VALUE_BYTES / 1_000_000
    figures: Figures = {}
    for name in (PLAIN, TLS):
        door, meter = broker.door(name), CpuMeter()
        with topic_of(broker.server) as topic, meter.running(broker.server):
            seconds = produce(door, topic, VALUE_BYTES, count, security=door.security)
        figures |= throughput_figures(f"{LABELS[name]}-produce", megabytes / seconds, meter)
    with topic_of(broker.server) as topic:
        preload_uniformly(broker.server, topic, VALUE_BYTES, count, now_ms())
        for name in (PLAIN, TLS):
            door, meter = broker.door(name), CpuMeter()
            with meter.running(broker.server):
                seconds = consume(door, topic, count, security=door.security)
            figures |= throughput_figures(f"{LABELS[name]}-consume", megabytes / seconds, meter)
    for what in ("produce", "consume"):
        figures[f"tls-{what}-share"] = figures[f"tls-{what}"] / figures[f"plain-{what}"] * 100
    return figures


def measure_latency(broker: SecuredBroker, scale: Scale) -> Figures:
    """One record at a time over one connection."""
    figures: Figures = {}
    for door in (PLAIN, TLS):
        meter = CpuMeter()
        with topic_of(broker.server) as topic, RawConnection(HOST, broker.ports[door], broker.tls_of(door)) as client:
            latencies_over(client, topic, scale.single_records // 10)
            with meter.running(broker.server):
                latencies = latencies_over(client, topic, scale.single_records)
        figures |= latency_figures(f"{LABELS[door]}-latency", latencies, (50, 99), meter)
    return figures


def measure_logins(broker: SecuredBroker, scale: Scale) -> Figures:
    """The broker's CPU for a connection that says who it is, asks for the versions and goes, in microseconds. Sessions
    of TLS are not resumed, and the client has salted its password before.
    """
    figures: Figures = {}
    for door in DOORS:
        _log_in(broker, door, scale.logins // 10)
        meter = CpuMeter()
        with meter.running(broker.server):
            _log_in(broker, door, scale.logins)
        figures[f"login-{LABELS[door]}"] = meter.seconds / scale.logins * 1e6
    return figures


def _log_in(broker: SecuredBroker, door: str, count: int) -> None:
    for _ in range(count):
        with broker.connect(door) as connection:
            connection.request(VERSIONS, ApiVersionsRequest.MAX_VERSION)
