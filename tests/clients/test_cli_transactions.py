from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.connection import BlockingConnection
from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker
from tests.clients.raw.transactional import RawProducer
from tests.clients.raw.wire import Topic, Wire, create_topic, fetch


@pytest.fixture(scope="module")
def cli(broker: RunningBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


@pytest.fixture
def wire(broker: RunningBroker) -> Iterator[Wire]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with BlockingConnection(host, int(port), client_id="raw") as connection:
        yield Wire(connection)


@pytest.fixture
def topic(wire: Wire) -> Topic:
    return create_topic(wire)


@pytest.fixture
def producer(wire: Wire, topic: Topic) -> RawProducer:
    """Has written one record and left its transaction open."""
    producer = RawProducer(wire, is_new=True).init()
    assert producer.produce(topic) == 0
    return producer


def test_transaction_is_listed_by_its_state(cli: Cli, producer: RawProducer) -> None:
    listed = {line["transactional_id"]: line for line in cli.run("transactions", "list", "--json").json}
    assert listed[producer.transactional_id]["state"] == "Ongoing"
    assert listed[producer.transactional_id]["producer_id"] == producer.producer_id
    assert producer.transactional_id in cli.run("transactions", "list", "--state", "Ongoing").text
    assert producer.transactional_id not in cli.run("transactions", "list", "--state", "Empty").text
    assert producer.transactional_id not in cli.run("transactions", "list", "--longer-than", "10m").text
    assert cli.try_run("transactions", "list", "--state", "Asleep").code == 1


def test_transaction_is_described_with_its_partitions(cli: Cli, topic: Topic, producer: RawProducer) -> None:
    (described,) = cli.run("transactions", "describe", producer.transactional_id, "--json").json
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [f"{topic.name}-0"]
    assert described["open_for_ms"] >= 0
    text = cli.run("transactions", "describe", producer.transactional_id).text
    assert f"{producer.producer_id} (epoch 0)" in text


def test_transaction_that_is_unknown_cannot_be_described(cli: Cli, producer: RawProducer) -> None:
    result = cli.try_run("transactions", "describe", "no-such-id")
    assert result.code == 1
    assert "no-such-id" in result.err


def test_open_transaction_ends_when_it_is_aborted(cli: Cli, wire: Wire, topic: Topic, producer: RawProducer) -> None:
    assert fetch(wire, topic, isolation_level=1).last_stable_offset == 0
    assert cli.try_run("transactions", "abort", topic.name, "0", "--start-offset", "5", "--yes").code == 1
    assert "offset 0" in cli.run("transactions", "abort", topic.name, "0", "--yes").err
    assert fetch(wire, topic, isolation_level=1).last_stable_offset == 2
    assert cli.try_run("transactions", "abort", topic.name, "0", "--yes").code == 1


def test_start_offset_is_asked_for_when_several_transactions_are_open(
    cli: Cli, wire: Wire, topic: Topic, producer: RawProducer
) -> None:
    other = RawProducer(wire, is_new=True).init()
    assert other.produce(topic) == 0
    result = cli.try_run("transactions", "abort", topic.name, "0", "--yes")
    assert result.code == 2
    assert "0, 1" in result.err
    cli.run("transactions", "abort", topic.name, "0", "--start-offset", "1", "--yes")
    assert fetch(wire, topic, isolation_level=1).last_stable_offset == 0
