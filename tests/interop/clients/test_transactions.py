"""Transactions with Kafka's Java client and Kafka's tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest

from apache_kafka.commands import run_command
from penstock.testing.processes import ServerProcess
from tests.interop.conftest import KafkaTool, MakeTopic, RunScenario

PROGRAM = "TransactionScenario"
COMMITTED = ("--isolation-level", "read_committed", "--from-beginning", "--timeout-ms", "8000")


# ------------------------------------------------------------------------------------------------ Java client


def test_committed_records_alone_are_read_when_transactions_are_committed_and_aborted(
    run_scenario: RunScenario,
) -> None:
    assert run_scenario("commit-and-abort", partitions=3, program=PROGRAM) == {
        "committed": "200",
        "distinct": "200",
        "aborted-seen": "0",
        "uncommitted": "300",
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_record_is_copied_once_when_offsets_are_in_the_transactions(
    run_scenario: RunScenario, protocol: str
) -> None:
    assert run_scenario("copy", protocol, partitions=2, program=PROGRAM) == {
        "copies": "100",
        "distinct": "100",
        "committed-offset": "100",
    }


def test_zombie_is_fenced_when_a_successor_has_its_id(run_scenario: RunScenario) -> None:
    seen = run_scenario("fence", partitions=1, program=PROGRAM)
    assert seen == {"zombie": "ProducerFencedException", "committed": "[from the successor]"}


def test_transaction_is_aborted_when_its_time_is_over(run_scenario: RunScenario) -> None:
    seen = run_scenario("time-out", partitions=1, program=PROGRAM)
    assert seen == {"open": "0", "ended": "2", "producer": "InvalidTxnStateException", "committed": "[]"}


# ------------------------------------------------------------------------------------------------ tools


@contextmanager
def open_transaction(broker: ServerProcess, topic: str, *values: str) -> Iterator[confluent_kafka.Producer]:
    """Written, not ended; whoever still can, aborts it at the end."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{topic}-id"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    try:
        yield producer
    finally:
        producer.purge()


def rows(kafka_tool: KafkaTool, *arguments: str) -> list[dict[str, str]]:
    """The table that `kafka-transactions` prints, whose columns are separated by tabs."""
    table = [re.split(r"\s*\t\s*", line.strip()) for line in kafka_tool("kafka-transactions", *arguments).lines]
    return [dict(zip(table[0], row, strict=False)) for row in table[1:]]


def committed(kafka_tool: KafkaTool, topic: str) -> list[str]:
    return kafka_tool("kafka-console-consumer", "--topic", topic, *COMMITTED, must_succeed=False).lines


def test_transaction_is_listed_and_described_when_open(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic)
    with open_transaction(broker, topic, "a", "b") as producer:
        listed = {row["TransactionalId"]: row for row in rows(kafka_tool, "list")}
        own = listed[f"{topic}-id"]
        assert (own["Coordinator"], own["TransactionState"]) == ("1", "Ongoing")
        (described,) = rows(kafka_tool, "describe", "--transactional-id", f"{topic}-id")
        assert described["TransactionState"] == "Ongoing"
        assert described["ProducerId"] == own["ProducerId"]
        assert described["TopicPartitions"] == f"{topic}-0"
        assert int(described["TransactionTimeoutMs"]) == 60_000
        (writing,) = rows(kafka_tool, "describe-producers", "--topic", topic, "--partition", "0")
        assert writing["ProducerId"] == own["ProducerId"]
        assert writing["CurrentTransactionStartOffset"] == "0"
        assert int(writing["LastSequence"]) == 1
        assert committed(kafka_tool, topic) == []
        producer.commit_transaction(30)
    (described,) = rows(kafka_tool, "describe", "--transactional-id", f"{topic}-id")
    assert described["TransactionState"] == "CompleteCommit"
    (writing,) = rows(kafka_tool, "describe-producers", "--topic", topic, "--partition", "0")
    assert writing["CurrentTransactionStartOffset"] == "None"
    assert committed(kafka_tool, topic) == ["a", "b"]


def test_nothing_is_found_when_no_transaction_hangs(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic)
    with open_transaction(broker, topic, "a"):
        assert rows(kafka_tool, "find-hanging", "--broker-id", "1") == []
        assert rows(kafka_tool, "find-hanging", "--topic", topic, "--partition", "0") == []


def test_records_disappear_when_an_administrator_aborts_what_a_partition_has_open(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic)
    with open_transaction(broker, topic, "a"):
        kafka_tool("kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        (writing,) = rows(kafka_tool, "describe-producers", "--topic", topic, "--partition", "0")
        assert writing["CurrentTransactionStartOffset"] == "None"
    kafka_tool("kafka-console-producer", "--topic", topic, standard_input="after\n")
    assert committed(kafka_tool, topic) == ["after"]


def test_producer_is_fenced_when_an_administrator_terminates_its_transaction(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic)
    with open_transaction(broker, topic, "a") as producer:
        kafka_tool("kafka-transactions", "forceTerminateTransaction", "--transactionalId", f"{topic}-id")
        (described,) = rows(kafka_tool, "describe", "--transactional-id", f"{topic}-id")
        assert described["TransactionState"] == "Empty"  # the tool initialises the id anew
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            producer.commit_transaction(30)
        assert refused.value.args[0].fatal()
    assert committed(kafka_tool, topic) == []


def test_every_record_is_read_when_a_load_is_written_in_transactions(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic, 3)
    count = 20_000
    written = run_command(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", str(count), "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", broker.bootstrap_servers),
        *("--transaction-duration-ms", "50", "--transactional-id", f"{topic}-id"),
    )
    assert f"{count} records sent" in written.lines[-1]
    assert "Exception" not in written.output
    arguments = ("--topic", topic, "--num-records", str(count), "--timeout", "20000")
    isolation = ("--command-property", "isolation.level=read_committed")
    read = [line.split(", ") for line in kafka_tool("kafka-consumer-perf-test", *arguments, *isolation).lines]
    assert int(dict(zip(read[0], read[-1], strict=False))["data.consumed.in.nMsg"]) >= count


def test_aborted_records_are_shown_when_the_console_reads_uncommitted(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic)
    with open_transaction(broker, topic, "aborted") as producer:
        producer.abort_transaction(30)
        producer.begin_transaction()
        producer.produce(topic, "kept")
        producer.commit_transaction(30)
    assert committed(kafka_tool, topic) == ["kept"]
    every = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")
    assert kafka_tool("kafka-console-consumer", *every).lines == ["aborted", "kept"]
