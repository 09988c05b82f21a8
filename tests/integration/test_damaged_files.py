"""What a start makes of files that a crash, a disk or a person has damaged, seen through a real process."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from penstock.log.formats import names
from penstock.testing.processes import BrokerProcess, ServerProcessError
from proof.crash.check import verify_files
from tests.clients.confluent import admin_of, consumer_of, create_topic, produce, producer_of, read_topic, values
from tests.integration.conftest import StartBroker

COUNT = 50
LOG = names.segment_file(0, names.LOG)


def fill(broker: BrokerProcess, topic: str = "t", count: int = COUNT, **config: object) -> list[bytes]:
    """One batch for each record, so that cutting the file cuts between records."""
    sent = [b"record %03d " % number + b"x" * 100 for number in range(count)]
    producer = producer_of(broker.bootstrap_servers, batch_num_messages=1, **config)
    produce(producer, topic, sent)
    return sent


def high_watermark(broker: BrokerProcess, topic: str = "t") -> int:
    with consumer_of(broker.bootstrap_servers) as consumer:
        found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        return found[1]


@pytest.fixture
def crashed(start_broker: StartBroker) -> tuple[BrokerProcess, list[bytes]]:
    """A broker that was killed with 50 records in `t`, one batch each."""
    broker = start_broker()
    create_topic(broker.bootstrap_servers, name="t")
    sent = fill(broker)
    broker.kill()
    return broker, sent


def batch_size(log: Path) -> int:
    size = log.stat().st_size
    assert size % COUNT == 0
    return size // COUNT


class TestTornTails:
    @pytest.mark.parametrize("cut", [1, 12, 60, 100])
    def test_log_ends_before_the_torn_batch_when_the_file_was_cut(
        self, crashed: tuple[BrokerProcess, list[bytes]], cut: int
    ) -> None:
        broker, sent = crashed
        log = broker.data_dir / "t-0" / LOG
        whole = log.stat().st_size
        with log.open("r+b") as file:
            file.truncate(whole - cut)
        broker.start()
        assert values(read_topic(broker.bootstrap_servers, "t", COUNT - 1)) == sent[:-1]
        assert high_watermark(broker) == COUNT - 1
        # What comes next stands right behind the last whole batch.
        (report,) = produce(producer_of(broker.bootstrap_servers), "t", [b"next"])
        assert report.offset() == COUNT - 1
        broker.terminate()
        assert verify_files([broker.data_dir / "t-0"]) == []

    def test_log_ends_at_the_damaged_batch_when_bytes_were_flipped(
        self, crashed: tuple[BrokerProcess, list[bytes]]
    ) -> None:
        """As Kafka: what stands behind a damaged batch of the unflushed tail goes with it, since nothing says that
        it is whole.
        """
        broker, sent = crashed
        log = broker.data_dir / "t-0" / LOG
        position = batch_size(log) * 40 + 80
        flip(log, position)
        broker.start()
        assert values(read_topic(broker.bootstrap_servers, "t", 40)) == sent[:40]
        assert high_watermark(broker) == 40

    @pytest.mark.parametrize("garbage", [b"\x00" * 4_096, b"\xff" * 300, random.Random(7).randbytes(2_000)])
    def test_tail_is_cut_when_garbage_stands_behind_the_log(
        self, crashed: tuple[BrokerProcess, list[bytes]], garbage: bytes
    ) -> None:
        """Zeros are what file systems leave when the machine went down between a file's growth and its content."""
        broker, sent = crashed
        log = broker.data_dir / "t-0" / LOG
        with log.open("ab") as file:
            file.write(garbage)
        broker.start()
        assert values(read_topic(broker.bootstrap_servers, "t", COUNT)) == sent
        assert high_watermark(broker) == COUNT

    def test_empty_log_is_fine_when_the_crash_left_no_byte(self, crashed: tuple[BrokerProcess, list[bytes]]) -> None:
        broker, _ = crashed
        (broker.data_dir / "t-0" / LOG).write_bytes(b"")
        broker.start()
        assert high_watermark(broker) == 0
        assert produce(producer_of(broker.bootstrap_servers), "t", [b"x"])[0].offset() == 0

    def test_idempotent_producer_is_told_when_its_last_batch_was_torn(self, start_broker: StartBroker) -> None:
        """Acknowledged and gone with the tail, as a power failure without fsync can do: the producer's next sequence
        is ahead of the log. It must hear of the gap; a new producer goes on.
        """
        broker = start_broker()
        create_topic(broker.bootstrap_servers, name="t")
        producer = producer_of(broker.bootstrap_servers, enable_idempotence=True, batch_num_messages=1)
        produce(producer, "t", [b"%d" % number for number in range(10)])
        broker.kill()
        log = broker.data_dir / "t-0" / LOG
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - 5)
        broker.start()
        producer.produce("t", b"10")
        with pytest.raises(KafkaException) as caught:
            producer.flush(20)
        assert caught.value.args[0].fatal()
        assert caught.value.args[0].code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        other = producer_of(broker.bootstrap_servers, enable_idempotence=True)
        assert produce(other, "t", [b"other"])[0].offset() == 9


DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(missing_ok=True),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\x07" * 100),
}


class TestRebuiltFiles:
    @pytest.mark.parametrize("kind", ["garbage"])
    @pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
    def test_records_are_found_by_offset_and_time_when_indexes_are_damaged(
        self, start_broker: StartBroker, kind: str, is_clean: bool
    ) -> None:
        broker = start_broker()
        config = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}
        create_topic(broker.bootstrap_servers, name="t", config=config)
        producer = producer_of(broker.bootstrap_servers, batch_num_messages=10)
        for second in range(10):
            produce(producer, "t", [b"%d" % second + b"x" * 1_000] * 250, timestamp=1_700_000_000_000 + second * 1_000)
        stop(broker, is_clean)
        directory = broker.data_dir / "t-0"
        assert len(list(directory.glob("*.log"))) > 2
        for log in directory.glob("*.log"):
            for suffix in names.INDEX_SUFFIXES:
                if log.with_suffix(suffix).exists():
                    DAMAGE[kind](log.with_suffix(suffix))
        broker.start()
        with consumer_of(broker.bootstrap_servers) as consumer:
            for second in (0, 3, 7, 9):
                asked = [TopicPartition("t", 0, 1_700_000_000_000 + second * 1_000)]
                (found,) = consumer.offsets_for_times(asked, timeout=20)
                assert found.offset == second * 250
        assert len(read_topic(broker.bootstrap_servers, "t", 2_500)) == 2_500
        broker.terminate()
        assert verify_files([directory]) == []

    @pytest.mark.parametrize("kind", ["gone", "garbage"])
    @pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
    def test_idempotent_producer_makes_no_duplicate_when_snapshots_are_damaged(
        self, start_broker: StartBroker, kind: str, is_clean: bool
    ) -> None:
        broker = start_broker()
        create_topic(broker.bootstrap_servers, name="t")
        producer = producer_of(broker.bootstrap_servers, enable_idempotence=True)
        produce(producer, "t", [b"%d" % number for number in range(20)])
        stop(broker, is_clean)
        for snapshot in (broker.data_dir / "t-0").glob(f"*{names.SNAPSHOT}"):
            DAMAGE[kind](snapshot)
        broker.start()
        produce(producer, "t", [b"%d" % number for number in range(20, 40)])
        assert values(read_topic(broker.bootstrap_servers, "t", 40)) == [b"%d" % number for number in range(40)]
        assert high_watermark(broker) == 40

    def test_committed_offsets_are_there_when_the_tail_of_their_topic_is_torn(self, start_broker: StartBroker) -> None:
        broker = start_broker(config={"offsets.topic.num.partitions": "1"})
        servers = broker.bootstrap_servers
        create_topic(servers, name="t")
        with consumer_of(servers, group_id="g") as consumer:
            for offset in (10, 20):
                consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        broker.kill()
        with (broker.data_dir / "__consumer_offsets-0" / LOG).open("ab") as file:
            file.write(b"\x00" * 77)
        broker.start()
        asked = [ConsumerGroupTopicPartitions("g")]
        found = admin_of(servers).list_consumer_group_offsets(asked)["g"].result(20)
        assert [one.offset for one in found.topic_partitions] == [20]


class TestRefusals:
    def test_start_is_refused_with_the_reason_when_the_directory_is_another_brokers(
        self, crashed: tuple[BrokerProcess, list[bytes]]
    ) -> None:
        broker, _ = crashed
        properties = broker.data_dir / names.META_PROPERTIES
        properties.write_text(re.sub(r"cluster\.id=.*", "cluster.id=somebody-elses-cluster-id", properties.read_text()))
        with pytest.raises(ServerProcessError, match=r"exit code 1[\s\S]*belongs to cluster somebody-elses-cluster-id"):
            broker.start()


def stop(broker: BrokerProcess, is_clean: bool) -> None:
    if is_clean:
        assert broker.terminate() == 0
    else:
        broker.kill()


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_records_stay_where_they_are_when_two_partitions_have_each_others_topic_id(start_broker: StartBroker) -> None:
    """Once taken for a topic that was deleted and made again, and deleted."""
    broker = start_broker()
    for topic in ("one", "two"):
        create_topic(broker.bootstrap_servers, name=topic)
        fill(broker, topic)
    broker.terminate()
    one, two = (broker.data_dir / f"{topic}-0" / names.PARTITION_METADATA for topic in ("one", "two"))
    logs = [(path.parent / LOG).read_bytes() for path in (one, two)]
    mine, other = one.read_bytes(), two.read_bytes()
    one.write_bytes(other)
    two.write_bytes(mine)
    broker.start()
    assert [(path.parent / LOG).read_bytes() for path in (one, two)] == logs
    broker.terminate()
    one.write_bytes(mine)
    two.write_bytes(other)
    broker.start()
    assert len(values(read_topic(broker.bootstrap_servers, "one", COUNT))) == COUNT
