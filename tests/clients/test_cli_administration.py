from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker


@pytest.fixture(scope="module")
def cli(broker: RunningBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


def own_settings(cli: Cli, *resource: str) -> dict[str, str]:
    settings = cli.run("configs", "describe", *resource, "--json").json["settings"]
    return {setting["name"]: setting["value"] for setting in settings}


def test_only_named_settings_change_when_topic_is_altered(cli: Cli) -> None:
    topic = cli.new_topic("--config", "retention.ms=1000000")
    cli.run(
        "configs", "alter", "--topic", topic, "--set", "max.message.bytes=5000", "--append", "cleanup.policy=compact"
    )
    assert own_settings(cli, "--topic", topic) == {
        "retention.ms": "1000000",
        "max.message.bytes": "5000",
        "cleanup.policy": "delete,compact",
    }
    cli.run("configs", "alter", "--topic", topic, "--subtract", "cleanup.policy=delete", "--delete", "retention.ms")
    assert own_settings(cli, "--entity-type", "topics", "--entity-name", topic) == {
        "max.message.bytes": "5000",
        "cleanup.policy": "compact",
    }


def test_setting_is_refused_when_it_is_not_valid(cli: Cli) -> None:
    topic = cli.new_topic()
    for setting in ("max.message.bytes=lots", "no.such.key=1", "cleanup.policy=burn"):
        assert cli.try_run("configs", "alter", "--topic", topic, "--set", setting).code == 1
    cli.run("configs", "alter", "--topic", topic, "--set", "retention.ms=5", "--validate-only")
    assert own_settings(cli, "--topic", topic) == {}


def test_inherited_settings_are_shown_when_all_are_asked_for(cli: Cli) -> None:
    topic = cli.new_topic()
    settings = cli.run("configs", "describe", "--topic", topic, "--all", "--json").json["settings"]
    by_name = {setting["name"]: setting for setting in settings}
    assert by_name["max.message.bytes"]["value"] == "1048588"
    assert by_name["max.message.bytes"]["source"] == "default"
    assert "Nothing is set" in cli.run("configs", "describe", "--topic", topic).err


def test_broker_defaults_change_when_altered(cli: Cli) -> None:
    before = own_settings(cli, "--broker-defaults")
    cli.run("configs", "alter", "--broker-defaults", "--set", "log.retention.ms=123456789")
    assert own_settings(cli, "--broker-defaults") == {**before, "log.retention.ms": "123456789"}
    cli.run("configs", "alter", "--broker-defaults", "--delete", "log.retention.ms")
    assert own_settings(cli, "--broker-defaults") == before


def test_broker_settings_are_shown_when_broker_exists(cli: Cli) -> None:
    (broker, *_) = cli.run("cluster", "describe", "--json").json["brokers"]
    settings = cli.run("configs", "describe", "--broker", str(broker["id"]), "--all", "--json").json["settings"]
    assert {"log.dirs", "num.partitions", "log.retention.ms"} <= {setting["name"] for setting in settings}
    missing = cli.try_run("configs", "describe", "--broker", "4242")
    assert missing.code == 1
    assert "no broker 4242" in missing.err


def test_changed_topics_are_listed_when_configs_are(cli: Cli) -> None:
    topic = cli.new_topic("--config", "retention.ms=1000000")
    listed = {line["name"]: line["settings"] for line in cli.run("configs", "list", "--json").json}
    assert listed[topic] == {"retention.ms": "1000000"}


def test_cluster_and_its_apis_are_shown_when_described(cli: Cli) -> None:
    described = cli.run("cluster", "describe", "--json").json
    assert described["cluster_id"]
    assert described["controller"] in [broker["id"] for broker in described["brokers"]]
    assert described["partitions"] >= described["topics"] >= 0
    assert (described["under_replicated"], described["offline"]) == (0, 0)
    apis = {api["name"]: api for api in cli.run("cluster", "api-versions", "--json").json}
    assert apis["Produce"]["max_version"] >= 9
    assert None not in apis
    text = cli.run("cluster", "describe").text
    assert "Cluster" in text
    assert "(0 under-replicated, 0 offline)" in text


def test_sizes_grow_when_records_are_stored(cli: Cli) -> None:
    topic = cli.new_topic("-p", "2")
    cli.run("produce", topic, "-p", "1", "-v", "x" * 10_000)
    (directory,) = cli.run("cluster", "log-dirs", "--topic", topic, "--json").json
    sizes = {partition["partition"]: partition["size"] for partition in directory["partitions"]}
    assert sizes[0] == 0
    assert 10_000 < sizes[1] < 11_000
    assert directory["error"] is None


def test_client_properties_are_used_when_given_as_a_file(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers={cli.bootstrap_servers}\nsecurity.protocol=PLAINTEXT\nkey.serializer=x.Y\n")
    elsewhere = Cli("127.0.0.1:1")
    assert elsewhere.try_run("topics", "list").code == 3
    elsewhere.run("topics", "list", "--command-config", str(config))
    unknown = cli.try_run("topics", "list", "-X", "no.such.setting=1")
    assert unknown.code == 2
    assert "no.such.setting" in unknown.err


def test_numbers_are_reported_when_performance_is_measured(cli: Cli) -> None:
    topic = cli.new_topic("-p", "2")
    produced = cli.run("perf", "produce", topic, "-n", "5000", "-s", "200", "-z", "lz4", "--json").json
    assert (produced["records"], produced["bytes"], produced["failed"]) == (5000, 1_000_000, 0)
    assert 0 < produced["latency_ms"]["p50"] <= produced["latency_ms"]["p99.9"] <= produced["latency_ms"]["max"]
    consumed = cli.run("perf", "consume", topic, "--json").json
    assert (consumed["records"], consumed["bytes"]) == (5000, 1_000_000)
    latency = cli.run("perf", "latency", topic, "-n", "20", "--json").json
    assert latency["records"] == 20
    assert 0 < latency["acknowledged_ms"]["p50"] <= latency["latency_ms"]["p50"]
    text = cli.run("perf", "produce", topic, "-n", "100", "--throughput", "1000").text
    assert "records/s" in text
    unmet = cli.try_run("perf", "consume", topic, "-n", "100000", "--timeout", "0.5")
    assert unmet.code == 1
