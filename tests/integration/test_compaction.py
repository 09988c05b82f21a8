"""A broker that compacts while it serves, is killed in the middle, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import psutil
from confluent_kafka.cimpl import NewTopic

import penstock
from penstock.testing.processes import BrokerProcess
from tests.integration.conftest import StartBroker

TOPIC = "compacted"
KEYS = 50
CONFIG = {"log.cleaner.backoff.ms": "50", "replica.high.watermark.checkpoint.interval.ms": "200"}
# A few seconds for what the tests write.
SLOWLY = CONFIG | {"log.cleaner.io.max.bytes.per.second": "4000000"}


def create(broker: BrokerProcess | penstock.Broker) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    settings = {"cleanup.policy": "compact", "segment.bytes": str(1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)])[TOPIC].result(30)


def produce(broker: BrokerProcess | penstock.Broker, start: int, count: int) -> dict[str, str]:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    table = {}
    for number in range(start, start + count):
        key, value = f"k{number % KEYS}", f"{number} " + f"{number * 7919 % 100_003:06d}" * 150
        producer.produce(TOPIC, value, key=key)
        table[key] = value
        producer.poll(0)
    assert producer.flush(60) == 0
    return table


def consume(broker: BrokerProcess | penstock.Broker) -> tuple[dict[str, str], int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    table: dict[str, str] = {}
    count, last = 0, -1
    while True:
        message = consumer.poll(30)
        assert message is not None, "the broker does not answer"
        error, offset, key, value = message.error(), message.offset(), message.key(), message.value()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            break
        assert offset is not None
        assert offset > last
        last, count = offset, count + 1
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        table[key.decode()] = value.decode()
    consumer.close()
    return table, count


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def wait_until_cleaned(data_dir: Path, offset: int) -> None:
    """By the checkpoint that the broker writes."""
    checkpoint = data_dir / "cleaner-offset-checkpoint"

    def is_cleaned() -> bool:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        return any(line.startswith(f"{TOPIC} 0 ") and int(line.split()[2]) >= offset for line in lines)

    wait_until(is_cleaned, f"{checkpoint} did not reach {offset}")


def wait_until_cleaner_writes(broker: BrokerProcess) -> psutil.Process:
    """The cleaner's process, in the middle of its work."""
    wait_until(lambda: any((broker.data_dir / f"{TOPIC}-0").glob("*.cleaned")), "nothing is compacted")
    (process,) = psutil.Process(broker.pid).children()
    return process


def is_over(process: psutil.Process) -> bool:
    """A process whose parent was killed stays a zombie where nobody looks after it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_table_stays_right_when_the_broker_compacts_is_killed_and_starts_again(start_broker: StartBroker) -> None:
    broker = start_broker(config=CONFIG)
    create(broker)
    expected: dict[str, str] = {}
    total = 0
    for _ in range(3):
        expected |= produce(broker, total, 4_000)
        total += 4_000
        broker.kill()
        broker.start()
    expected |= produce(broker, total, 4_000)
    total += 4_000
    wait_until_cleaned(broker.data_dir, 10_000)
    table, count = consume(broker)
    assert table == expected
    assert count < total // 2
    broker.terminate()
    broker.start()
    assert consume(broker)[0] == expected
    # None is left over. One may be there for a moment: the broker cleans on.
    wait_until(lambda: not list((broker.data_dir / f"{TOPIC}-0").glob("*.cleaned")), "files of a cleaning are left")


def test_cleaner_ends_with_the_broker_when_it_is_killed_or_stopped(start_broker: StartBroker) -> None:
    broker = start_broker(config=SLOWLY)
    create(broker)
    expected = produce(broker, 0, 8_000)
    cleaner = wait_until_cleaner_writes(broker)
    broker.kill()
    broker.start()  # at once: the two may meet
    wait_until(lambda: is_over(cleaner), "the cleaner goes on when its broker was killed")
    cleaner = wait_until_cleaner_writes(broker)
    broker.terminate()
    assert is_over(cleaner)
    assert not list((broker.data_dir / f"{TOPIC}-0").glob("*.cleaned"))
    broker.start()
    assert consume(broker)[0] == expected


def test_log_is_compacted_by_a_process_of_its_own_when_the_broker_is_embedded(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with penstock.Broker(tmp_path, config=CONFIG) as broker:
        create(broker)
        expected = produce(broker, 0, 4_000)
        wait_until_cleaned(tmp_path, 2_000)
        assert len(set(psutil.Process().children()) - before) == 1
        assert consume(broker)[0] == expected
    assert set(psutil.Process().children()) <= before
