"""One record at a time by a client that has logged in, while another floods the same port with handshakes.

What counts is the p99, compared with that beside the same sender against a closed port: so the sender's own use of the
machine is in both.
"""

from __future__ import annotations

import time

from bench.errors import BenchError
from bench.loads import LATENCY_VALUE_BYTES, Figures, Scale, now_ms, percentile, topic_of
from bench.secured.brokers import TLS_LOGIN, SecuredBroker
from bench.secured.sender import FORMS, Sender
from bench.wire import produce_error, produce_request, record_batch
from penstock.client.connection import BlockingConnection
from penstock.testing.processes import find_free_port

# The sender and the broker find their pace.
WARM_UP_S = 0.3


def measure_handshakes(broker: SecuredBroker, scale: Scale) -> Figures:
    figures: Figures = {}
    closed = find_free_port()
    with topic_of(broker.server) as topic, broker.connect(TLS_LOGIN) as client:
        for form in FORMS:
            with Sender(closed, form):
                alone = latencies_for(client, topic, scale.handshakes_seconds)
            with Sender(broker.ports[TLS_LOGIN], form) as sender:
                flooded = latencies_for(client, topic, scale.handshakes_seconds)
            figures |= {
                f"{form}-alone-p99": percentile(alone, 99) / 1000,
                f"{form}-p50": percentile(flooded, 50) / 1000,
                f"{form}-p99": percentile(flooded, 99) / 1000,
                f"{form}-times": percentile(flooded, 99) / percentile(alone, 99),
                f"{form}-rate": sender.finished_a_second,
                f"{form}-cores": sender.cores,
            }
    return figures


def latencies_for(client: BlockingConnection, topic: str, seconds: float) -> list[int]:
    """Nanoseconds of each record, in order."""
    request = produce_request(topic, 0, record_batch(bytes(LATENCY_VALUE_BYTES), now_ms()))
    latencies = []
    begun = time.monotonic()
    while (passed_s := time.monotonic() - begun) < WARM_UP_S + seconds:
        started = time.perf_counter_ns()
        client.send_bytes(request)
        response = client.receive_frame()
        if passed_s > WARM_UP_S:
            latencies.append(time.perf_counter_ns() - started)
    if error := produce_error(response, topic):
        raise BenchError(f"a produce was answered with error {error}")
    return sorted(latencies)
