from __future__ import annotations

import pytest

from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker


@pytest.fixture(scope="module")
def cli(broker: RunningBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


def test_topic_is_described_as_it_was_created(cli: Cli) -> None:
    topic = cli.new_topic("--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=86400000")
    (described,) = cli.run("topics", "describe", topic, "--json").json
    assert described["name"] == topic
    assert described["partition_count"] == 3
    assert described["configs"] == {"retention.ms": "86400000"}
    assert len(described["topic_id"]) == 22
    assert all(partition["leader"] is not None for partition in described["partitions"])
    text = cli.run("topics", "describe", topic).text
    assert "retention.ms=86400000" in text
    assert len([line for line in text.splitlines() if line.strip()[:1].isdigit()]) == 3


def test_topic_is_listed_when_it_exists(cli: Cli) -> None:
    topic = cli.new_topic()
    assert topic in cli.run("topics", "list", "--quiet").text.splitlines()
    assert topic in [listed["name"] for listed in cli.run("topics", "list", "--json").json]


def test_second_creation_is_refused_unless_it_is_accepted(cli: Cli) -> None:
    topic = cli.new_topic()
    refused = cli.try_run("topics", "create", topic)
    assert refused.code == 1
    assert "exists" in refused.err
    assert "--if-not-exists" in refused.err
    assert "exists already" in cli.run("topics", "create", topic, "--if-not-exists").err


def test_nothing_is_created_when_topic_is_only_validated_or_not_valid(cli: Cli) -> None:
    cli.run("topics", "create", "cli-validated-only", "--validate-only")
    for arguments in (["bad name"], ["cli-bad-config", "--config", "no.such.key=1"], ["cli-bad-factor", "-r", "99"]):
        assert cli.try_run("topics", "create", *arguments).code == 1
    names = cli.run("topics", "list", "--quiet").text.splitlines()
    assert not {"cli-validated-only", "bad name", "cli-bad-config", "cli-bad-factor"} & set(names)


def test_partitions_grow_but_never_shrink_when_altered(cli: Cli) -> None:
    topic = cli.new_topic("-p", "2")
    cli.run("topics", "alter", topic, "--partitions", "4")
    assert cli.run("topics", "describe", topic, "--json").json[0]["partition_count"] == 4
    assert cli.try_run("topics", "alter", topic, "--partitions", "3").code == 1


def test_topic_is_gone_when_deleted(cli: Cli) -> None:
    topic = cli.new_topic()
    assert cli.try_run("topics", "delete", topic).code == 2  # nobody is there to confirm it
    cli.run("topics", "delete", topic, "--yes")
    assert cli.try_run("topics", "describe", topic).code == 1
    assert cli.try_run("topics", "delete", topic, "--yes").code == 1
    cli.run("topics", "delete", topic, "--yes", "--if-exists")


def test_offsets_show_range_and_places_when_topic_has_records(cli: Cli) -> None:
    topic = cli.new_topic()
    records = b"".join(b'{"value": "x", "timestamp": %d}\n' % (1_700_000_000_000 + number) for number in range(10))
    cli.run("produce", topic, "--format", "json", stdin=records)
    assert cli.run("topics", "offsets", topic, "--json").json == [{"partition": 0, "earliest": 0, "latest": 10}]

    def offset_at(time: str) -> int:
        (found,) = cli.run("topics", "offsets", topic, "--time", time, "--json").json
        offset: int = found["offset"]
        return offset

    places = {"earliest": 0, "latest": 10, "max-timestamp": 9, "1700000000004": 4, "2023-11-14T22:13:20.007Z": 7}
    assert {place: offset_at(place) for place in places} == places
    assert offset_at("-1m") == -1


def test_log_starts_later_when_records_are_deleted(cli: Cli) -> None:
    topic = cli.new_topic()
    records = b"".join(b'{"value": "x", "timestamp": %d}\n' % (1_700_000_000_000 + number) for number in range(10))
    cli.run("produce", topic, "--format", "json", stdin=records)
    cli.run("topics", "delete-records", topic, "--offsets", "0:3", "--yes")
    assert cli.run("topics", "offsets", topic, "--json").json[0]["earliest"] == 3
    cli.run("topics", "delete-records", topic, "--before", "1700000000006", "--yes")
    assert cli.run("topics", "offsets", topic, "--json").json[0]["earliest"] == 6
    deleted = cli.run("topics", "delete-records", topic, "--offsets", "0:end", "--yes", "--json").json
    assert deleted == [{"partition": 0, "low_watermark": 10}]
    assert cli.try_run("topics", "delete-records", topic, "--offsets", "0:99", "--yes").code == 1


def test_asking_does_not_create_when_topic_is_unknown(cli: Cli) -> None:
    for command in (["describe"], ["offsets"], ["alter", "--partitions", "2"]):
        assert cli.try_run("topics", *command, "cli-never-created").code == 1
    assert cli.try_run("consume", "cli-never-created", "--exit").code == 1
    assert "cli-never-created" not in cli.run("topics", "list", "--quiet").text
