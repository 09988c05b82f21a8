"""What an acknowledgement is worth: fsync before it where asked for, and what a power failure then leaves."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.log.storage.files import Files, OpenFile, StrPath
from penstock.server.stores import METADATA_FILE
from penstock.testing.disks.power_cut import PowerCutFiles, Tail
from penstock.testing.processes import BrokerProcess, ServerProcess
from tests.clients.confluent import (
    QUIET,
    consumer_of,
    create_topic,
    produce,
    producer_of,
    read_topic,
)
from tests.integration.served import served
from tests.servers import give_up_without

SEED = 20_260_101


class TestOrderOfSystemCalls:
    """Seen from outside, by strace: the log is synced between the write and the answer."""

    @pytest.fixture
    def traced(self, tmp_path: Path) -> Iterator[tuple[ServerProcess, Path]]:
        strace = shutil.which("strace")
        if strace is None:
            give_up_without("strace", "broker")
        if subprocess.run([strace, "-qq", "true"], capture_output=True, check=False).returncode:
            pytest.skip("strace may not trace here")
        trace = tmp_path / "trace"
        plain = BrokerProcess(tmp_path / "data")
        calls = "trace=pwritev,pwritev2,pwrite64,fsync,fdatasync,write,writev,sendto,sendmsg"
        command = [strace, "-f", "-y", "-qq", "-o", str(trace), "-e", calls, *plain.command]
        broker = ServerProcess("traced broker", command, port=plain.port, log_path=tmp_path / "log", start_timeout_s=60)
        try:
            yield broker.start(), trace
        finally:
            # strace passes no signal on; its child is what has to end.
            end_children_of(broker.pid)
            broker.process.wait(30)

    @staticmethod
    def events(trace: Path, topic: str) -> list[str]:
        """`write`, `sync` (done) and `answer`, in the order in which the kernel saw them."""
        found = []
        started: set[str] = set()
        for line in trace.read_text(errors="replace").splitlines():
            thread, _, call = line.partition(" ")
            call = call.strip()
            if f"/{topic}-0/" in call and call.startswith("pwrite"):
                found.append("write")
            elif f"/{topic}-0/" in call and call.startswith(("fsync", "fdatasync")):
                if "unfinished" in call:
                    started.add(thread)
                else:
                    found.append("sync")
            elif "resumed" in call and "sync" in call and thread in started:
                started.discard(thread)
                found.append("sync")
            elif re.match(r"(write|writev|sendto|sendmsg)\(\d+<socket:", call):
                found.append("answer")
        return found

    @pytest.mark.parametrize(("config", "expected"), [({"flush.messages": "1"}, True), ({}, False)])
    def test_log_is_synced_before_the_answer_only_when_flush_messages_is_one(
        self, traced: tuple[ServerProcess, Path], config: dict[str, str], expected: bool
    ) -> None:
        broker, trace = traced
        create_topic(broker.bootstrap_servers, name="t", config=config)
        producer = producer_of(broker.bootstrap_servers, acks="all")
        for number in range(10):
            produce(producer, "t", [b"%d" % number])
        events = self.events(trace, "t")
        writes = [index for index, event in enumerate(events) if event == "write"]
        assert len(writes) == 10
        for index in writes:
            following = events[index + 1 :]
            until_answer = following[: following.index("answer")]
            assert ("sync" in until_answer) is expected, events


def end_children_of(pid: int) -> None:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in children:
        subprocess.run(["kill", "-TERM", child], check=False)


class SlowDisk(Files):
    """The real disk with an fsync as slow as that of a disk that turns."""

    SYNC_S = 0.02

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        file = super().open(path, create=create)
        slow = SlowFile(file.fileno(), str(path))
        file._fd = -1  # the descriptor has a new owner
        return slow


class SlowFile(OpenFile):
    __slots__ = ()

    def sync(self) -> None:
        time.sleep(SlowDisk.SYNC_S)
        super().sync()


class TestGroupCommit:
    def test_producers_share_syncs_when_many_wait_for_one_disk(self, tmp_path: Path) -> None:
        count, each = 8, 20
        with served([tmp_path / "data"], SlowDisk()) as server:
            servers = server.bootstrap_servers
            create_topic(servers, name="t", config={"flush.messages": "1"})

            def write() -> None:
                producer = producer_of(servers, acks="all")
                for _ in range(each):
                    produce(producer, "t", [b"x"])

            threads = [threading.Thread(target=write) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            metrics = server.broker.metrics
            requests = metrics.topics.get("t").produce_requests
            syncs = sum(metrics.logs.flush_time_ms.counts)
        assert requests == count * each
        # Alone, each request would have a sync of its own; while one runs, the other seven queue for the next.
        assert syncs < requests / 2

    def test_log_is_synced_by_itself_when_flush_ms_is_over(self, tmp_path: Path) -> None:
        with served([tmp_path / "data"], Files()) as server:
            create_topic(server.bootstrap_servers, name="t", config={"flush.ms": "100"})
            produce(producer_of(server.bootstrap_servers), "t", [b"x"] * 10)
            partition = server.broker.partitions.find("t", 0)
            assert partition is not None
            deadline = time.monotonic() + 20
            while partition.log.recovery_point < 10:
                assert time.monotonic() < deadline
                time.sleep(0.01)


class TestPowerCut:
    """Acknowledged under flush.messages=1, so there after a power failure, whatever became of the rest."""

    @pytest.mark.parametrize("tail", Tail)
    def test_every_acknowledged_record_and_offset_survives_when_synced_first(self, tmp_path: Path, tail: Tail) -> None:
        chance = random.Random(SEED)
        files = PowerCutFiles()
        config = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "2"}
        cuts: list[tuple[Path, dict[str, int], int]] = []
        with served([tmp_path / "data"], files, config) as server, Writers(server.bootstrap_servers) as writers:
            for number in range(4):
                time.sleep(chance.uniform(0.1, 0.3))
                promised, committed = dict(writers.promised), writers.committed
                survivors = tmp_path / f"cut-{number}"
                files.write_survivors(tmp_path / "data", survivors, tail, chance)
                for part in (tmp_path / "data").glob(f"{METADATA_FILE}*"):
                    shutil.copy(part, survivors)
                cuts.append((survivors, promised, committed))
        files.close()
        assert cuts[-1][2] > 0
        for survivors, promised, committed in cuts:
            self.check(survivors, promised, committed)

    @staticmethod
    def check(survivors: Path, promised: dict[str, int], committed: int) -> None:
        with served([survivors], Files()) as server:
            for topic, count in promised.items():
                found = [message.value() for message in read_topic(server.bootstrap_servers, topic, count)]
                assert found == [b"%d" % number for number in range(count)], (survivors.name, topic)
            with consumer_of(server.bootstrap_servers, group_id="g") as consumer:
                (offset,) = consumer.committed([TopicPartition("t-0", 0)], timeout=20)
                assert offset.offset >= committed or committed == 0

    def test_records_may_be_lost_when_nobody_asked_for_a_sync(self, tmp_path: Path) -> None:
        """Not a promise but the reason for the setting: without it an acknowledgement means the page cache."""
        files = PowerCutFiles()
        with served([tmp_path / "data"], files) as server:
            create_topic(server.bootstrap_servers, name="t")
            produce(producer_of(server.bootstrap_servers), "t", [b"x"] * 10)
            files.write_survivors(tmp_path / "data", tmp_path / "cut", Tail.LOST, random.Random(SEED))
        files.close()
        log = tmp_path / "cut" / "t-0" / "00000000000000000000.log"
        assert not log.exists() or log.stat().st_size == 0


class Writers:
    """Producers that write numbers to topics of their own, one that makes new topics, and a committer."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.promised: dict[str, int] = {}
        self.committed = 0
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(3)]
        self._threads.append(threading.Thread(target=self._commit))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _write(self, writer: int) -> None:
        """A new topic every 30 records: its directory and its first segment have to survive too."""
        producer = producer_of(self.servers, acks="all", enable_idempotence=writer == 0)
        topic_number = 0
        while not self._ending.is_set():
            topic = create_topic(self.servers, name=f"t-{writer}" if not topic_number else f"t-{writer}-{topic_number}")
            for number in range(30):
                produce(producer, topic, [b"%d" % number])
                self.promised[topic] = number + 1
            topic_number += 1

    def _commit(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "g", **QUIET})
        while not self._ending.is_set():
            offset = self.committed + 1
            consumer.commit(offsets=[TopicPartition("t-0", 0, offset)], asynchronous=False)
            self.committed = offset
        consumer.close()
