"""Full, failing and lying disks: what is affected goes offline and says so, everything else goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from penstock.client.connection import BlockingConnection
from penstock.log.formats import names
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import PartitionProduceResponse
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from penstock.testing.processes import BrokerProcess, find_free_port
from proof.crash.check import verify_files
from tests.clients.confluent import admin_of, consumer_of, create_topic, produce, producer_of, read, read_topic, values
from tests.clients.raw import wire as raw
from tests.clients.support import eventually
from tests.integration.conftest import StartBroker
from tests.integration.moving import QUICK_MOVES, move
from tests.integration.served import served
from tests.integration.test_damaged_files import flip
from tests.servers import give_up_without

SMALL_DISK_BYTES = 4 * 1024 * 1024


def ask_to_produce(servers: str, topic: str, value: bytes = b"x") -> PartitionProduceResponse:
    """The bare answer: client libraries try again for as long as the error is one that may pass."""
    host, _, port = servers.rpartition(":")
    with BlockingConnection(host, int(port), client_id="failing-disk") as connection:
        wire, batch = raw.Wire(connection), raw.build_batch([value])
        answer: PartitionProduceResponse = raw.produce(wire, raw.Topic(topic, raw.ZERO_ID), batch, version=12)
        return answer


def produce_raw(servers: str, topic: str, value: bytes = b"x") -> ErrorCode:
    return ErrorCode(ask_to_produce(servers, topic, value).error_code)


def fetch_raw(servers: str, topic: str, offset: int = 0) -> ErrorCode:
    host, _, port = servers.rpartition(":")
    with BlockingConnection(host, int(port), client_id="failing-disk") as connection:
        return ErrorCode(raw.fetch(raw.Wire(connection), raw.Topic(topic, raw.ZERO_ID), offset, version=12).error_code)


def metric(address: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found, f"{name} is not among the metrics"
    return float(found[1])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        give_up_without("mount", "broker")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


class TestFullDisk:
    def test_partition_goes_offline_and_others_go_on_when_one_of_two_disks_is_full(
        self, start_broker: StartBroker, small_disk: Path, tmp_path: Path
    ) -> None:
        large = tmp_path / "large"
        metrics = f"127.0.0.1:{find_free_port()}"
        directories = f"{large},{small_disk / 'data'}"
        config = {"log.dirs": directories, "penstock.metrics.listen": metrics, **QUICK_MOVES}
        broker = start_broker(large, config=config)
        servers = broker.bootstrap_servers
        on_small, on_large = topics_on_both(servers, small_disk / "data", large)
        accepted = fill_until_refused(servers, on_small, small_disk)
        assert accepted > 0
        # The one partition is offline, for writers and readers, and says so.
        assert produce_raw(servers, on_small) == ErrorCode.KAFKA_STORAGE_ERROR
        assert fetch_raw(servers, on_small) == ErrorCode.KAFKA_STORAGE_ERROR
        assert f"partition {on_small}-0 goes offline" in broker.read_log()
        assert "No space left on device" in broker.read_log()
        assert metric(metrics, "kafka_server_replicamanager_offlinereplicacount") == 1
        # Everything else goes on, new topics included.
        assert produce_raw(servers, on_large) == ErrorCode.NONE
        assert produce(producer_of(servers), create_topic(servers), [b"new"])[0].offset() == 0
        # Room again, and a restart: every acknowledged record is there and more can come.
        (small_disk / "ballast").unlink()
        broker.restart()
        found = read_topic(servers, on_small, accepted)
        assert [message.offset() for message in found] == list(range(accepted))
        assert produce_raw(servers, on_small) == ErrorCode.NONE
        broker.terminate()
        assert verify_files([small_disk / "data" / f"{on_small}-0"]) == []

    def test_commands_name_the_disk_and_what_to_do_when_it_is_full(
        self, start_broker: StartBroker, small_disk: Path
    ) -> None:
        """`cluster status` advised to elect any replica, and `consume` said "no leaders found"."""
        broker = start_broker(small_disk / "data")
        servers = broker.bootstrap_servers
        topic = create_topic(servers)
        fill_until_refused(servers, topic, small_disk)

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "penstock", *arguments, "-b", servers]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

        status, consume = run("cluster", "status"), run("consume", topic, "--from", "beginning", "--exit")
        assert (status.returncode, consume.returncode) == (1, 1)
        for said in (status.stdout, consume.stderr):
            assert re.search(rf"The disk of {small_disk}/data on broker 1 is \d+ % full, .* free; most room", said)
            assert f"taken by {topic} (" in said
            assert "Make room there, then restart the broker" in said
        assert "elect any" not in status.stdout
        assert consume.stderr.startswith(f"Error: {topic}-0: no broker leads the partition\n")

    def test_broker_ends_cleanly_when_its_only_disk_is_full(self, start_broker: StartBroker, small_disk: Path) -> None:
        broker = start_broker(small_disk / "data")
        servers = broker.bootstrap_servers
        topic = create_topic(servers)
        accepted = fill_until_refused(servers, topic, small_disk)
        assert broker.terminate() == 0
        (small_disk / "ballast").unlink()
        broker.start()
        assert len(read_topic(servers, topic, accepted)) == accepted

    def test_changes_are_refused_one_by_one_and_nothing_is_half_made_when_the_only_disk_is_full(
        self, start_broker: StartBroker, small_disk: Path
    ) -> None:
        broker = start_broker(small_disk / "data")
        servers = broker.bootstrap_servers
        kept = create_topic(servers)
        admin = admin_of(servers)
        fill_to_the_last_byte(small_disk / "ballast")
        # The store's own file may have room for a few more changes. What counts is that the disk refuses in the end,
        # and that each answer is true.
        answers = {name: refusal(admin.create_topics([NewTopic(name, 2)])) for name in (f"new-{n}" for n in range(40))}
        assert set(answers.values()) <= {None, KafkaError.KAFKA_STORAGE_ERROR}
        assert KafkaError.KAFKA_STORAGE_ERROR in answers.values()
        made = {name for name, code in answers.items() if code is None}
        assert set(admin.list_topics(timeout=20).topics) == {kept} | made
        directories = {path.name for path in (small_disk / "data").iterdir() if path.is_dir()}
        assert directories == {f"{kept}-0"} | {f"{name}-{index}" for name in made for index in (0, 1)}
        refusals = [refusal(admin.delete_topics([name])) for name in (kept, "missing")]
        assert refusals[0] == KafkaError.KAFKA_STORAGE_ERROR
        assert refusals[1] == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert refusal(admin.create_partitions([NewPartitions(kept, 3)])) == KafkaError.KAFKA_STORAGE_ERROR
        change = [ConfigResource(ResourceType.TOPIC, kept, incremental_configs=[entry("retention.ms", "77")])]
        assert refusal(admin.incremental_alter_configs(change)) == KafkaError.KAFKA_STORAGE_ERROR
        # The broker serves as before, and all of it works once there is room.
        assert produce_raw(servers, f"{kept}-missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (small_disk / "ballast").unlink()
        assert refusal(admin.create_topics([NewTopic("late", 2)])) is None
        assert refusal(admin.create_partitions([NewPartitions(kept, 3)])) is None
        assert refusal(admin.incremental_alter_configs(change)) is None
        assert produce_raw(servers, kept) == ErrorCode.NONE
        assert refusal(admin.delete_topics([kept])) is None
        assert "goes offline" not in broker.read_log()


def fill_to_the_last_byte(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast:
        for size in (65_536, 4_096, 1):
            with contextlib.suppress(OSError):
                while ballast.write(b"\0" * size):
                    pass


def entry(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def refusal(answers: dict[Any, Future[Any]]) -> int | None:
    """The error code of the one thing that was asked for."""
    (answer,) = answers.values()
    try:
        answer.result(30)
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return None


def topics_on_both(servers: str, small: Path, large: Path) -> tuple[str, str]:
    """A topic in either directory. New partitions go where the most room is, so one has to be moved."""
    topics = create_topic(servers), create_topic(servers)
    for topic in topics:
        assert (large / f"{topic}-0").is_dir()
    move(servers, topics[0], small)
    return topics


def fill_until_refused(servers: str, topic: str, small_disk: Path) -> int:
    """How many records of 100 KB were acknowledged before the disk was full, together with a file `ballast`."""
    (small_disk / "ballast").write_bytes(b"\0" * 1024 * 1024)
    for count in range(100):
        answer = produce_raw(servers, topic, os.urandom(100_000))
        if answer != ErrorCode.NONE:
            assert answer == ErrorCode.KAFKA_STORAGE_ERROR
            return count
    raise AssertionError("the disk did not fill up")


class TestFailingDisk:
    """On files that fail when told to, in two directories of one broker."""

    @pytest.fixture
    def files(self) -> FaultyFiles:
        return FaultyFiles()

    @pytest.fixture
    def servers(self, tmp_path: Path, files: FaultyFiles) -> Iterator[str]:
        with served([tmp_path / "one", tmp_path / "two"], files) as server:
            for topic in ("good", "bad"):
                create_topic(server.bootstrap_servers, name=topic)
                produce(producer_of(server.bootstrap_servers), topic, [b"%d" % number for number in range(10)])
            yield server.bootstrap_servers
            files.heal()

    @pytest.mark.parametrize("partial_bytes", [0, 30, 70])
    def test_partition_alone_goes_offline_when_a_write_fails(
        self, servers: str, files: FaultyFiles, partial_bytes: int
    ) -> None:
        files.fail(Fault.on("write", "/bad-0/", errno.EIO, partial_bytes))
        assert produce_raw(servers, "bad") == ErrorCode.KAFKA_STORAGE_ERROR
        files.heal()
        assert produce_raw(servers, "bad") == ErrorCode.KAFKA_STORAGE_ERROR, "offline until the broker is started again"
        assert fetch_raw(servers, "bad") == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce_raw(servers, "good") == ErrorCode.NONE
        assert len(read_topic(servers, "good", 11)) == 11

    def test_acknowledgement_is_refused_when_the_sync_before_it_fails(self, servers: str, files: FaultyFiles) -> None:
        create_topic(servers, name="bad-synced", config={"flush.messages": "1"})
        assert produce_raw(servers, "bad-synced") == ErrorCode.NONE
        files.fail(Fault.on("sync", "/bad-synced-0/"))
        assert produce_raw(servers, "bad-synced") == ErrorCode.KAFKA_STORAGE_ERROR
        files.heal()
        # The kernel may have dropped what it could not write: a second fsync would only pretend to succeed.
        assert produce_raw(servers, "bad-synced") == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce_raw(servers, "good") == ErrorCode.NONE

    def test_answer_has_no_offset_when_the_sync_before_it_fails(self, servers: str, files: FaultyFiles) -> None:
        """As Kafka answers a storage error: the batch may be gone, so no offset is its own."""
        create_topic(servers, name="bad-synced", config={"flush.messages": "1"})
        assert ask_to_produce(servers, "bad-synced").base_offset == 0
        files.fail(Fault.on("sync", "/bad-synced-0/"))
        answer = ask_to_produce(servers, "bad-synced")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, -1)

    def test_reader_is_told_when_a_read_fails(self, servers: str, files: FaultyFiles) -> None:
        files.fail(Fault.on("read", "/bad-0/"))
        assert fetch_raw(servers, "bad", 5) == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(read_topic(servers, "good", 10)) == 10

    def test_clients_find_no_leader_when_a_partition_is_offline(self, servers: str, files: FaultyFiles) -> None:
        files.fail(Fault.on("write", "/bad-0/"))
        produce_raw(servers, "bad")
        with pytest.raises(KafkaException) as caught:
            produce(producer_of(servers, message_timeout_ms=1_500), "bad", [b"x"])
        assert caught.value.args[0].code() in (KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR)
        described = admin_of(servers).list_topics("bad", timeout=20).topics["bad"].partitions[0]
        assert described.error is not None
        assert described.error.code() == KafkaError.LEADER_NOT_AVAILABLE

    def test_topic_is_made_in_the_other_directory_when_one_fails(
        self, servers: str, files: FaultyFiles, tmp_path: Path
    ) -> None:
        files.fail(Fault.on("make_directory", "/one/"))
        for _ in range(4):
            topic = create_topic(servers)
            assert (tmp_path / "two" / f"{topic}-0").is_dir()

    def test_group_commits_are_refused_when_their_partition_fails(self, servers: str, files: FaultyFiles) -> None:
        with consumer_of(servers, group_id="g") as consumer:
            consumer.commit(offsets=[TopicPartition("good", 0, 1)], asynchronous=False)
            files.fail(Fault.on("write", "/__consumer_offsets-"))
            with pytest.raises(KafkaException):
                consumer.commit(offsets=[TopicPartition("good", 0, 2)], asynchronous=False)
        assert produce_raw(servers, "good") == ErrorCode.NONE


class TestDamagedBatch:
    """A batch that rots on the disk long after it was written: found before it is served."""

    COUNT = 40

    @pytest.fixture
    def broker(self, start_broker: StartBroker) -> BrokerProcess:
        """Several sealed segments in `bad`, and a clean stop, so that nothing is checked by the next start."""
        broker = start_broker()
        servers = broker.bootstrap_servers
        create_topic(servers, name="bad", config={"segment.bytes": "1048576"})
        create_topic(servers, name="good")
        produce(producer_of(servers), "good", [b"good"])
        produce(producer_of(servers, batch_num_messages=1), "bad", [b"x" * 100_000] * self.COUNT)
        assert broker.terminate() == 0
        assert len(list((broker.data_dir / "bad-0").glob("*.log"))) > 2
        return broker

    def damage(self, broker: BrokerProcess, position: int) -> None:
        """Of the fourth batch in the first segment, the byte at `position`."""
        log = broker.data_dir / "bad-0" / names.segment_file(0, names.LOG)
        batch_size = log.stat().st_size // 10
        flip(log, 3 * batch_size + position)

    @pytest.mark.parametrize("position", [5_000, 23, 16], ids=["records", "last offset", "magic"])
    def test_partition_goes_offline_and_nothing_bad_is_served_when_a_sealed_segment_is_damaged(
        self, broker: BrokerProcess, position: int
    ) -> None:
        """Even to a client that does not look at checksums, as librdkafka does not by default."""
        self.damage(broker, position)
        broker.start()
        servers = broker.bootstrap_servers
        got: list[bytes | None] = []
        with consumer_of(servers, check_crcs=False) as consumer:
            consumer.assign([TopicPartition("bad", 0, 0)])

            def is_told() -> bool:
                got.extend(values(one for one in consumer.consume(10, timeout=0.1) if one.error() is None))
                return "partition bad-0 goes offline" in broker.read_log()

            eventually(is_told, "the partition goes offline")
        assert all(value == b"x" * 100_000 for value in got)
        assert fetch_raw(servers, "bad") == ErrorCode.KAFKA_STORAGE_ERROR
        assert values(read_topic(servers, "good", 1)) == [b"good"]

    def test_records_are_served_when_only_the_leader_epoch_is_damaged(self, broker: BrokerProcess) -> None:
        """It stands outside the checksum, since the broker writes it: no client takes it for data."""
        self.damage(broker, 12)
        broker.start()
        assert len(read_topic(broker.bootstrap_servers, "bad", self.COUNT)) == self.COUNT

    def test_rest_is_served_when_the_log_start_is_moved_past_the_damage(self, broker: BrokerProcess) -> None:
        self.damage(broker, 5_000)
        broker.start()
        servers = broker.bootstrap_servers
        (future,) = admin_of(servers).delete_records([TopicPartition("bad", 0, 4)]).values()
        assert future.result(20).low_watermark == 4
        with consumer_of(servers) as consumer:
            consumer.assign([TopicPartition("bad", 0, 4)])
            assert len(read(consumer, self.COUNT - 4)) == self.COUNT - 4
        assert produce_raw(servers, "bad") == ErrorCode.NONE

    def test_damage_is_found_without_a_reader_when_the_files_are_verified(self, broker: BrokerProcess) -> None:
        self.damage(broker, 5_000)
        (finding,) = verify_files([broker.data_dir / "bad-0"])
        assert names.segment_file(0, names.LOG) in finding
