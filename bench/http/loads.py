"""What is asked of the HTTP services, with the same client for each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

import confluent_kafka

from bench.errors import BenchError
from bench.http.empty import PATH
from bench.http.sender import Sent, Target, send_all
from bench.loads import PATIENCE_S

CONNECTIONS = 16
# Few: each request is 1,000 records.
BATCH_CONNECTIONS = 4
BATCH = 1000
SCHEMA_TYPE = "application/vnd.schemaregistry.v1+json"
RECORDS_TYPE = "application/vnd.kafka.json.v2+json"
VALUE = {"id": 123456, "name": "penstock", "price": 12.5, "tags": ["a", "b"]}


def _schema(name: str) -> bytes:
    fields = [{"name": f"field{number}", "type": "string"} for number in range(10)]
    text = json.dumps({"type": "record", "name": name, "fields": fields})
    return json.dumps({"schema": text}).encode()


def register(target: Target, count: int) -> Sent:
    """Schemas that are all different, each in a subject of its own."""
    run = os.urandom(4).hex()
    requests = [
        target.request("POST", f"/subjects/{run}-{number}/versions", _schema(f"R{run}{number}"), SCHEMA_TYPE)
        for number in range(count)
    ]
    return send_all(target, requests, CONNECTIONS)


def get(target: Target, count: int) -> Sent:
    """The schemas of the first ids, in turn."""
    requests = [target.request("GET", f"/schemas/ids/{number + 1}") for number in range(min(count, 100))]
    return send_all(target, [requests[number % len(requests)] for number in range(count)], CONNECTIONS)


def empty_get(target: Target, count: int) -> Sent:
    return send_all(target, [target.request("GET", PATH)] * count, CONNECTIONS)


def empty_post(target: Target, count: int) -> Sent:
    return send_all(target, [target.request("POST", PATH, _records(1), RECORDS_TYPE)] * count, CONNECTIONS)


def _records(count: int) -> bytes:
    return json.dumps({"records": [{"value": VALUE}] * count}).encode()


def produce_single(target: Target, topic: str, count: int) -> Sent:
    return send_all(
        target, [target.request("POST", f"/topics/{topic}", _records(1), RECORDS_TYPE)] * count, CONNECTIONS
    )


def produce_batches(target: Target, topic: str, count: int) -> float:
    """Records a second."""
    requests = [target.request("POST", f"/topics/{topic}", _records(BATCH), RECORDS_TYPE)] * (count // BATCH)
    return send_all(target, requests, BATCH_CONNECTIONS).rate * BATCH


def produce_directly(settings: Mapping[str, str | int | float | bool], topic: str, count: int) -> float:
    """The same records by confluent-kafka, made before; records a second."""
    producer = confluent_kafka.Producer({**settings, "acks": "all", "queue.buffering.max.messages": count + 1})
    value = json.dumps(VALUE).encode()
    begun = time.perf_counter()
    for _ in range(count):
        producer.produce(topic, value)
        producer.poll(0)
    if producer.flush(PATIENCE_S):
        raise BenchError("confluent-kafka did not deliver all records")
    return count / (time.perf_counter() - begun)
