"""A broker process and its signals: clean shutdown, refusal to share a directory, being stopped and going on."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from penstock.log.formats import names
from penstock.testing.processes import BrokerProcess
from proof.crash.check import verify_files
from tests.clients.confluent import consumer_of, create_topic, produce, producer_of, read, read_topic, values
from tests.clients.support import eventually
from tests.integration.conftest import StartBroker

CHECKED_SEGMENT = "checking segment"  # what the log says of each segment that recovery reads


def run_to_its_end(data_dir: Path, *arguments: str, port: int | None = None) -> subprocess.CompletedProcess[str]:
    command = BrokerProcess(data_dir, port=port, arguments=arguments).command
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


class TestCleanShutdown:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_mark_is_left_and_nothing_is_checked_again_when_told_to_stop(
        self, start_broker: StartBroker, number: signal.Signals
    ) -> None:
        broker = start_broker()
        create_topic(broker.bootstrap_servers, name="t", partitions=3)
        produce(producer_of(broker.bootstrap_servers), "t", [b"x"] * 100, partition=1)
        broker.process.send_signal(number)
        assert broker.process.wait(20) == 0
        assert (broker.data_dir / names.CLEAN_SHUTDOWN).exists()
        checkpoint = (broker.data_dir / names.RECOVERY_POINTS).read_text()
        assert "t 1 100" in checkpoint.splitlines()
        before = len(broker.read_log())
        broker.start()
        assert CHECKED_SEGMENT not in broker.read_log()[before:]
        # The mark must not outlive the start: if this run crashes, the next one has to check.
        assert not (broker.data_dir / names.CLEAN_SHUTDOWN).exists()
        assert len(read_topic(broker.bootstrap_servers, "t", 100, partition=1)) == 100

    @pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
    def test_it_serves_and_ends_with_0_when_a_standard_descriptor_is_closed(self, tmp_path: Path, closed: str) -> None:
        """libuv aborted the process at its end, and without standard error it did not start."""
        broker = BrokerProcess(tmp_path / "data")
        with subprocess.Popen(["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *broker.command]) as process:
            try:
                bootstrap = f"{broker.host}:{broker.port}"
                create_topic(bootstrap, name="t")
                produce(producer_of(bootstrap), "t", [b"x"])
            finally:
                process.send_signal(signal.SIGTERM)
        assert process.returncode == 0
        assert (tmp_path / "data" / names.CLEAN_SHUTDOWN).exists()

    def test_segments_are_checked_when_killed(self, start_broker: StartBroker) -> None:
        broker = start_broker(config={"penstock.log.level": "info"})
        create_topic(broker.bootstrap_servers, name="t")
        produce(producer_of(broker.bootstrap_servers), "t", [b"x"] * 100)
        broker.kill()
        assert not (broker.data_dir / names.CLEAN_SHUTDOWN).exists()
        before = len(broker.read_log())
        broker.start()
        assert CHECKED_SEGMENT in broker.read_log()[before:]

    def test_files_are_whole_when_stopped_under_load(self, start_broker: StartBroker) -> None:
        broker = start_broker()
        create_topic(broker.bootstrap_servers, name="t")
        producer = producer_of(broker.bootstrap_servers, linger_ms=1)
        ending = threading.Event()

        def write() -> None:
            while not ending.is_set():
                producer.produce("t", b"x" * 100)
                producer.poll(0)
                time.sleep(0.0005)

        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(0.3)
        try:
            assert broker.terminate() == 0
        finally:
            ending.set()
            thread.join()
            producer.purge()
        assert verify_files([broker.data_dir / "t-0"]) == []

    def test_waiting_consumer_does_not_hold_up_the_end_when_told_to_stop(self, start_broker: StartBroker) -> None:
        broker = start_broker()
        create_topic(broker.bootstrap_servers, name="t")
        with consumer_of(broker.bootstrap_servers, fetch_wait_max_ms=60_000, socket_timeout_ms=70_000) as consumer:
            consumer.assign([TopicPartition("t", 0, 0)])
            assert consumer.poll(0.3) is None
            started = time.monotonic()
            assert broker.terminate() == 0
            assert time.monotonic() - started < 10


class TestExclusiveness:
    def test_second_process_is_refused_with_the_reason_when_the_directory_is_in_use(
        self, start_broker: StartBroker
    ) -> None:
        broker = start_broker()
        create_topic(broker.bootstrap_servers, name="t")
        done = run_to_its_end(broker.data_dir)
        assert done.returncode == 1
        assert f"cannot start: {broker.data_dir}" in done.stderr
        assert "in use by another broker" in done.stderr
        assert "Traceback" not in done.stderr
        # The first one has not noticed anything.
        assert produce(producer_of(broker.bootstrap_servers), "t", [b"x"])[0].offset() == 0

    def test_directory_is_free_again_when_its_broker_was_killed(self, start_broker: StartBroker) -> None:
        broker = start_broker()
        broker.kill()
        broker.start()

    def test_start_is_refused_with_the_reason_when_the_port_is_taken(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = run_to_its_end(tmp_path / "data", port=taken.getsockname()[1])
        assert done.returncode == 1
        assert "cannot listen on" in done.stderr
        assert "Traceback" not in done.stderr

    def test_start_is_refused_with_the_reason_when_a_setting_is_invalid(self, tmp_path: Path) -> None:
        done = run_to_its_end(tmp_path / "data", "--set", "log.retention.ms=soon")
        assert done.returncode == 2
        assert "log.retention.ms" in done.stderr
        assert "Traceback" not in done.stderr


class TestStoppedProcess:
    def test_clients_go_on_when_the_process_was_stopped_for_a_while(self, start_broker: StartBroker) -> None:
        broker = start_broker()
        create_topic(broker.bootstrap_servers, name="t")
        producer = producer_of(broker.bootstrap_servers, enable_idempotence=True)
        produce(producer, "t", [b"before"])
        with consumer_of(broker.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition("t", 0, 0)])
            assert values(read(consumer, 1)) == [b"before"]
            broker.pause()
            try:
                producer.produce("t", b"during")
                assert producer.flush(1.0) == 1
            finally:
                broker.resume()
            assert producer.flush(20) == 0
            assert values(read(consumer, 1)) == [b"during"]

    def test_member_is_dropped_and_returns_when_the_broker_slept_past_its_session(
        self, start_broker: StartBroker
    ) -> None:
        broker = start_broker(config={"group.min.session.timeout.ms": "500"})
        create_topic(broker.bootstrap_servers, name="t")
        with consumer_of(broker.bootstrap_servers, session_timeout_ms=500, heartbeat_interval_ms=100) as consumer:
            consumer.subscribe(["t"])
            eventually(lambda: consumer.poll(0.05) or consumer.assignment(), "an assignment")
            broker.pause()
            time.sleep(1.0)
            broker.resume()
            produce(producer_of(broker.bootstrap_servers), "t", [b"after"])
            assert values(read(consumer, 1)) == [b"after"]
