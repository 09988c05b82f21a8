"""`make demo`: a broker, a topic, records in and out with a client we did not write, and a look at what is on disk."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from penstock import Broker

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 10_000

console = Console()


def create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(timeout=10)
    console.print(f"created topic [bold]{TOPIC}[/] with {PARTITIONS} partitions")


def produce(servers: str) -> None:
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": "zstd"})
    started = time.perf_counter()
    for number in range(RECORDS):
        producer.produce(
            TOPIC,
            key=f"customer-{number % 97}",
            value=f'{{"order": {number}, "amount": {number % 500}}}',
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    left = producer.flush(30)
    if failures or left:
        raise SystemExit(f"{len(failures)} records failed, {left} were not acknowledged")
    spent_ms = (time.perf_counter() - started) * 1000
    console.print(f"produced {RECORDS:,} records, idempotent, zstd, acknowledged in {spent_ms:.0f} ms")


def consume(servers: str) -> Counter[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    counts: Counter[int] = Counter()
    deadline = time.monotonic() + 30
    while counts.total() < RECORDS and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=1):
            if message.error():
                raise SystemExit(f"consuming failed: {message.error()}")
            counts[message.partition() or 0] += 1
    consumer.commit(asynchronous=False)
    consumer.close()
    console.print(f"consumed {counts.total():,} records as group [bold]billing[/]")
    return counts


def show(counts: Counter[int], data_dir: Path) -> None:
    table = Table("partition", "records", "bytes on disk", title=f"{TOPIC}, in Kafka's own file format")
    for partition in range(PARTITIONS):
        size = sum(file.stat().st_size for file in (data_dir / f"{TOPIC}-{partition}").glob("*.log"))
        table.add_row(str(partition), f"{counts[partition]:,}", f"{size:,}")
    console.print(table)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as data:
        started = time.perf_counter()
        with Broker(data_dir=data) as broker:
            spent_ms = (time.perf_counter() - started) * 1000
            console.print(f"broker started in {spent_ms:.0f} ms at [bold]{broker.bootstrap_servers}[/]")
            create_topic(broker.bootstrap_servers)
            produce(broker.bootstrap_servers)
            counts = consume(broker.bootstrap_servers)
            show(counts, Path(data))
    if counts.total() != RECORDS:
        raise SystemExit(f"expected {RECORDS} records, got {counts.total()}")
    console.print("[green]every record came back.[/] A broker of your own:")
    console.print("  .venv/bin/penstock broker start --data ./data --listen 127.0.0.1:9092", soft_wrap=True)


if __name__ == "__main__":
    main()
