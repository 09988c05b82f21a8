"""A broker inside the caller's program: penstock.Broker, penstock.AsyncBroker and the pytest fixture."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

import penstock
from penstock.protocol.errors import ApiError
from penstock.testing.pytest_plugin import KafkaFixture
from tests.clients.confluent import consumer_of, create_topic, produce, producer_of, read_topic, values

_TESTS_OF_A_USER = """
from confluent_kafka import Consumer, Producer, TopicPartition
import pytest

def deliver(kafka, topic, value):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, value, partition=0)
    assert producer.flush(20) == 0

def high_watermark(kafka, topic):
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1]
    finally:
        consumer.close()

@pytest.mark.parametrize("number", [1, 2])
def test_topics_are_a_tests_own(kafka, number):
    topic, other = kafka.topic(partitions=3), kafka.topic()
    assert topic != other
    assert high_watermark(kafka, topic) == 0
    deliver(kafka, topic, b"x")
    assert high_watermark(kafka, topic) == 1

def test_name_and_config_are_chosen(kafka):
    assert kafka.topic("orders", config={"max.message.bytes": 1000}) == "orders"

def test_name_is_free_again_after_the_test(kafka):
    assert kafka.topic("orders") == "orders"

def test_one_broker_serves_the_whole_run(kafka, penstock_broker):
    assert kafka.broker is penstock_broker
"""
_CONFTEST_OF_A_USER = """
import pytest

@pytest.fixture(scope="session")
def penstock_config():
    return {"num.partitions": "7"}
"""
_TEST_OF_THE_CONFIG = """
from confluent_kafka.admin import AdminClient, NewTopic

def test_setting_counts(kafka):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("wide")])["wide"].result(20)
    assert len(admin.list_topics(timeout=20).topics["wide"].partitions) == 7
"""


_CLUSTER_OF_A_USER = """
import pytest

@pytest.fixture(scope="session")
def penstock_cluster_options():
    return {"brokers": 1, "store": "memory", "config": {"num.partitions": 7}}
"""
_TESTS_OF_A_CLUSTER = """
from confluent_kafka.admin import AdminClient, NewTopic

def test_topic_is_a_tests_own(kafka_cluster):
    topic = kafka_cluster.topic(partitions=3)
    assert kafka_cluster.topic() != topic
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    assert len(admin.list_topics(timeout=20).topics[topic].partitions) == 3

def test_broker_may_be_stopped(kafka_cluster):
    assert kafka_cluster.topic("orders") == "orders"
    kafka_cluster.cluster.stop_broker(1)

def test_broker_is_back_for_the_next_test(kafka_cluster, penstock_cluster):
    assert kafka_cluster.cluster is penstock_cluster
    assert kafka_cluster.cluster.controller_id() == 1
    assert kafka_cluster.topic("orders", config={"max.message.bytes": 1000}) == "orders"
"""


class TestBroker:
    def test_records_come_back_when_embedded(self) -> None:
        with penstock.Broker() as broker:
            broker.create_topic("t", partitions=2)
            produce(producer_of(broker.bootstrap_servers), "t", [b"a", b"b"], partition=1)
            assert values(read_topic(broker.bootstrap_servers, "t", 2, partition=1)) == [b"a", b"b"]

    def test_start_to_first_acknowledged_record_is_quick_when_embedded(self) -> None:
        """The benchmark has the goal of 0.1 s; here is only the guard against something slow on the way."""
        started = time.monotonic()
        with penstock.Broker() as broker:
            produce(producer_of(broker.bootstrap_servers), "t", [b"a"])
            assert time.monotonic() - started < 5.0

    def test_records_are_there_when_the_directory_is_opened_again(self, tmp_path: Path) -> None:
        with penstock.Broker(tmp_path / "data") as broker:
            produce(producer_of(broker.bootstrap_servers), create_topic(broker.bootstrap_servers, name="t"), [b"kept"])
        with penstock.Broker(tmp_path / "data") as broker:
            assert values(read_topic(broker.bootstrap_servers, "t", 1)) == [b"kept"]

    def test_nothing_is_left_when_the_data_was_temporary(self) -> None:
        with penstock.Broker() as broker:
            broker.create_topic("t")
            (directory,) = broker._broker.server.broker.directories.directories
            assert (directory / "t-0").is_dir()
        assert not directory.exists()

    def test_two_brokers_are_apart_when_both_are_embedded(self) -> None:
        with penstock.Broker() as one, penstock.Broker() as two:
            assert one.port != two.port
            one.create_topic("t")
            produce(producer_of(one.bootstrap_servers), "t", [b"x"])
            two.create_topic("t")
            with consumer_of(two.bootstrap_servers) as consumer:
                assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=20) == (0, 0)

    def test_settings_count_when_given_with_python_values(self) -> None:
        config = {"auto.create.topics.enable": False, "num.partitions": 3}
        with penstock.Broker(config=config) as broker:
            from tests.clients.confluent import admin_of

            admin = admin_of(broker.bootstrap_servers)
            assert admin.list_topics("nowhere", timeout=20).topics["nowhere"].error is not None

    def test_topic_is_refused_when_it_exists(self) -> None:
        with penstock.Broker() as broker:
            broker.create_topic("t")
            with pytest.raises(ApiError):
                broker.create_topic("t")

    def test_address_is_refused_when_not_running(self) -> None:
        with pytest.raises(RuntimeError, match="not running"):
            _ = penstock.Broker().bootstrap_servers

    def test_broker_starts_again_when_it_was_stopped(self) -> None:
        broker = penstock.Broker()
        for _ in range(2):
            broker.start()
            broker.create_topic("t")
            broker.stop()
        broker.stop()


class TestAsyncBroker:
    def test_records_come_back_on_the_callers_loop(self) -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        async def scenario() -> bytes:
            async with penstock.AsyncBroker() as broker:
                await broker.create_topic("t")
                producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
                await producer.start()
                await producer.send_and_wait("t", b"async")
                await producer.stop()
                consumer = AIOKafkaConsumer(
                    "t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
                )
                await consumer.start()
                record = await consumer.getone()
                await consumer.stop()
                value: bytes = record.value
                return value

        assert asyncio.run(asyncio.wait_for(scenario(), 30)) == b"async"

    def test_topic_goes_when_deleted(self) -> None:
        async def scenario() -> None:
            async with penstock.AsyncBroker() as broker:
                await broker.create_topic("t")
                await broker.delete_topic("t")
                await broker.delete_topic("t")
                await broker.create_topic("t")

        asyncio.run(asyncio.wait_for(scenario(), 30))


class TestPytestPlugin:
    def test_fixture_serves_this_very_test(self, kafka: KafkaFixture) -> None:
        topic = kafka.topic()
        produce(producer_of(kafka.bootstrap_servers), topic, [b"x"])
        assert values(read_topic(kafka.bootstrap_servers, topic, 1)) == [b"x"]

    def test_tests_of_a_user_pass_when_they_use_the_fixture(self, tmp_path: Path) -> None:
        (tmp_path / "test_user.py").write_text(_TESTS_OF_A_USER)
        assert "5 passed" in self.run_pytest(tmp_path)

    def test_settings_count_when_a_user_overrides_them(self, tmp_path: Path) -> None:
        (tmp_path / "conftest.py").write_text(_CONFTEST_OF_A_USER)
        (tmp_path / "test_config.py").write_text(_TEST_OF_THE_CONFIG)
        assert "1 passed" in self.run_pytest(tmp_path)

    def test_cluster_is_whole_for_each_test_when_a_user_asks_for_one(self, tmp_path: Path) -> None:
        (tmp_path / "conftest.py").write_text(_CLUSTER_OF_A_USER)
        (tmp_path / "test_cluster.py").write_text(_TESTS_OF_A_CLUSTER)
        assert "3 passed" in self.run_pytest(tmp_path)

    @staticmethod
    def run_pytest(directory: Path) -> str:
        """As a user runs it: the plugin is found by its entry point, warnings are errors."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(directory)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
