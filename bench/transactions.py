"""Transactions one after another: a hundred records, committed before the next hundred."""

from __future__ import annotations

import itertools
import time

import confluent_kafka

from bench.contenders import CpuMeter
from bench.errors import BenchError
from bench.loads import PATIENCE_S, Figures, Scale, client_settings, topic_of
from penstock.testing.processes import ServerProcess

RECORDS_PER_TRANSACTION = 100
VALUE_BYTES = 1024

_producer_numbers = itertools.count(1)


def measure_transactions(server: ServerProcess, scale: Scale) -> Figures:
    meter = CpuMeter()
    failures: list[str] = []
    settings = {
        "transactional.id": f"bench-{next(_producer_numbers)}",
        "linger.ms": 0,
        "error_cb": lambda error: failures.append(str(error)),
    }
    with topic_of(server) as topic:
        producer = confluent_kafka.Producer({**client_settings(server), **settings})
        producer.init_transactions(PATIENCE_S)
        records = [{"value": bytes(VALUE_BYTES), "partition": 0} for _ in range(RECORDS_PER_TRANSACTION)]
        for _ in range(scale.transactions // 10):
            _run_transaction(producer, topic, records)
        with meter.running(server):
            started = time.perf_counter()
            for _ in range(scale.transactions):
                _run_transaction(producer, topic, records)
            seconds = time.perf_counter() - started
        if failures:
            raise BenchError(f"the client said: {failures[-3:]}")
    return {"transactions": scale.transactions / seconds, "transactions.cpu": meter.seconds}


def _run_transaction(producer: confluent_kafka.Producer, topic: str, records: list[dict[str, object]]) -> None:
    producer.begin_transaction()
    producer.produce_batch(topic, records, partition=0)
    # Flushes first, and fails if a record did.
    producer.commit_transaction(PATIENCE_S)
