"""Kafka's own reader over the files of a broker, stopped or running: it checks every batch and every index entry."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest
from confluent_kafka.cimpl import NewTopic

from apache_kafka.commands import run_command
from apache_kafka.jars import UNMEASURED_OPTIONS
from apache_kafka.node import ApacheKafkaNode
from penstock.testing.processes import BrokerProcess, ServerProcess
from tests.clients.support import eventually

TOPIC = "dumped"
TRANSACTIONS_TOPIC = "dumped-transactions"
TRANSACTIONS = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_CODEC = 4000
LIVE_BATCHES = 50
# What the tool prints when an index does not fit its log.
COMPLAINTS = (
    "Mismatches",
    "Found timestamp mismatch",
    "Found out of order",
    "Non-consecutive",
    "Index position",
    "does not match",
)

Stop = Callable[[ServerProcess], object]


def make_apache_kafka(directory: Path) -> tuple[ServerProcess, Path]:
    node = ApacheKafkaNode(directory, options=UNMEASURED_OPTIONS)
    return node, node.data_dir


def make_penstock(directory: Path) -> tuple[ServerProcess, Path]:
    broker = BrokerProcess(directory / "data")
    return broker, broker.data_dir


def stop_cleanly(server: ServerProcess) -> None:
    server.terminate()


def crash_and_recover(server: ServerProcess) -> None:
    server.kill()
    server.start()
    server.terminate()


def fill(server: ServerProcess) -> None:
    """Several small segments, each codec, keys and headers, and one committed group."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": server.bootstrap_servers})
    settings = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "4096"}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)])[TOPIC].result(30)
    filler = random.Random(1)  # hardly compressible, so that every codec fills a segment
    for codec in CODECS:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "batch.num.messages": 50,
                "queue.buffering.max.messages": 10_000,
            }
        )
        for number in range(RECORDS_PER_CODEC):
            producer.produce(
                TOPIC, f"{codec} {number} {filler.randbytes(200).hex()}", key=str(number), headers={"codec": codec}
            )
        assert producer.flush(60) == 0
    fill_transactions(server, admin)
    group = {"group.id": "dumped-group", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": server.bootstrap_servers, **group})
    consumer.subscribe([TOPIC])
    assert consumer.poll(30) is not None, "the group did not form"
    consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, 42)], asynchronous=False)
    consumer.close()


def fill_transactions(server: ServerProcess, admin: confluent_kafka.admin.AdminClient) -> None:
    """Every third one commits; two producers take turns, so that transactions overlap and span segments."""
    admin.create_topics([NewTopic(TRANSACTIONS_TOPIC, 1, 1, config={"segment.bytes": str(1024 * 1024)})])[
        TRANSACTIONS_TOPIC
    ].result(30)
    settings = {"bootstrap.servers": server.bootstrap_servers, "compression.type": "none"}
    producers = [confluent_kafka.Producer({**settings, "transactional.id": f"dumped-{name}"}) for name in "ab"]
    for producer in producers:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in range(TRANSACTIONS):
        for producer in producers:
            producer.produce(TRANSACTIONS_TOPIC, b"x" * 40_000)
            assert producer.flush(60) == 0
        producer = producers[number % 2]
        if number % 3 == 0:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
        producer.begin_transaction()
    for producer in producers:
        producer.abort_transaction(60)


@pytest.fixture(
    scope="module",
    params=[(make, stop) for make in (make_apache_kafka, make_penstock) for stop in (stop_cleanly, crash_and_recover)],
    ids=lambda pair: f"{pair[0].__name__}-{pair[1].__name__}",
)
def data_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    make, stop = request.param
    server, directory = make(tmp_path_factory.mktemp("dump") / "broker")
    with server:
        fill(server)
        stop(server)
    return Path(directory)


@pytest.fixture(scope="module", params=[make_apache_kafka, make_penstock], ids=lambda make: make.__name__)
def live_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The partition of a running broker: one segment of batches that are larger than an index interval."""
    server, directory = request.param(tmp_path_factory.mktemp("live") / "broker")
    with server:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap_servers, "batch.num.messages": 10})
        for number in range(10 * LIVE_BATCHES):
            producer.produce(TOPIC, b"x" * 1024, timestamp=1_700_000_000_000 + number)
        assert producer.flush(60) == 0
        yield Path(directory) / f"{TOPIC}-0"


def files(data_directory: Path, suffix: str, topic: str = f"{TOPIC}-0") -> str:
    return ",".join(str(path) for path in sorted((data_directory / topic).glob(f"*{suffix}")))


def test_every_record_is_read_when_the_log_is_dumped(data_directory: Path) -> None:
    arguments = ("--files", files(data_directory, ".log"), "--deep-iteration", "--print-data-log")
    dumped = run_command("kafka-dump-log", *arguments).stdout
    assert dumped.count("Log starting offset:") > 2
    assert "isvalid: false" not in dumped
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)]
    assert offsets == list(range(len(CODECS) * RECORDS_PER_CODEC))
    for codec in CODECS:
        assert f"compresscodec: {codec} " in dumped
        assert f"headerKeys: [codec] key: 7 payload: {codec} 7 " in dumped


@pytest.mark.parametrize("check", ["--index-sanity-check", "--verify-index-only"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_fits_its_log_when_checked(data_directory: Path, suffix: str, check: str) -> None:
    checked = run_command("kafka-dump-log", "--files", files(data_directory, suffix), check).output
    assert [complaint for complaint in COMPLAINTS if complaint in checked] == []
    if check == "--index-sanity-check":
        assert checked.count("passed sanity check.") == checked.count("Dumping ")


def test_index_has_entries_when_dumped(data_directory: Path) -> None:
    dumped = run_command("kafka-dump-log", "--files", files(data_directory, ".index")).stdout
    assert len(re.findall(r"^offset: \d+ position: \d+$", dumped, re.MULTILINE)) > 10
    dumped = run_command("kafka-dump-log", "--files", files(data_directory, ".timeindex")).stdout
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", dumped, re.MULTILINE)) > 10


@pytest.mark.parametrize(
    ("suffix", "entry"), [(".index", r"^offset: \d+ position: \d+$"), (".timeindex", r"^timestamp: \d+ offset: \d+$")]
)
def test_index_of_the_segment_being_written_is_read_when_the_broker_runs(
    live_directory: Path, suffix: str, entry: str
) -> None:
    """The tool failed for want of the file, and left an empty one behind."""
    (active,) = live_directory.glob("*.log")
    before = {path.name for path in live_directory.iterdir()}

    def count_entries() -> int:
        dumped = run_command("kafka-dump-log", "--files", str(active.with_suffix(suffix)))
        assert [complaint for complaint in COMPLAINTS if complaint in dumped.output] == []
        return len(re.findall(entry, dumped.stdout, re.MULTILINE))

    eventually(lambda: count_entries() >= LIVE_BATCHES - 1, "the entries in the file")
    assert {path.name for path in live_directory.iterdir()} == before


def test_producer_state_is_read_when_the_snapshots_are_dumped(data_directory: Path) -> None:
    dumped = run_command("kafka-dump-log", "--files", files(data_directory, ".snapshot")).stdout
    states = re.findall(
        r"producerId: \d+ producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty", dumped
    )
    assert len(states) >= len(CODECS)
    last = len(CODECS) * RECORDS_PER_CODEC - 1
    assert f"lastOffset: {last}" in dumped
    assert f"lastSequence: {RECORDS_PER_CODEC - 1}" in dumped


def test_committed_offset_is_read_when_the_offsets_topic_is_decoded(data_directory: Path) -> None:
    decoded = ""
    for directory in sorted(data_directory.glob("__consumer_offsets-*")):
        logs = [path for path in directory.glob("*.log") if path.stat().st_size]
        if logs:
            arguments = ("--files", ",".join(map(str, logs)), "--offsets-decoder")
            decoded += run_command("kafka-dump-log", *arguments).stdout
    assert re.search(r'"group":"dumped-group","topic":"dumped","partition":0\}.*"offset":42,', decoded)


def test_markers_are_read_when_a_log_with_transactions_is_dumped(data_directory: Path) -> None:
    arguments = ("--files", files(data_directory, ".log", f"{TRANSACTIONS_TOPIC}-0"), "--deep-iteration")
    dumped = run_command("kafka-dump-log", *arguments).stdout
    assert "isvalid: false" not in dumped
    kinds = re.findall(r"endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: \d+", dumped)
    assert (kinds.count("COMMIT"), kinds.count("ABORT")) == (10, 21)


def test_aborted_transactions_are_listed_when_the_transaction_indexes_are_dumped(data_directory: Path) -> None:
    topic = f"{TRANSACTIONS_TOPIC}-0"
    dumped = run_command("kafka-dump-log", "--files", files(data_directory, ".log", topic), "--deep-iteration").stdout
    aborts = [int(offset) for offset in re.findall(r"^\| offset: (\d+) .*endTxnMarker: ABORT", dumped, re.MULTILINE)]
    indexes = run_command("kafka-dump-log", "--files", files(data_directory, ".txnindex", topic)).stdout
    assert indexes.count("Dumping ") > 1
    entries = re.findall(
        r"version: 0 producerId: \d+ firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", indexes
    )
    assert [int(last) for _, last, _ in entries] == aborts
    assert all(int(first) < int(last) and int(stable) <= int(last) + 1 for first, last, stable in entries)
