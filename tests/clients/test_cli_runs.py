"""`penstock pipeline list --running`, `pause`, `resume`, `stop` and `restart`, with runs that need no Spark."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker
from tests.clients.seen_runs import (
    fake_run,
    run_of,
    runs_of,
    see_a_run_paused_resumed_restarted_and_stopped,
    unique_name,
    wait_until,
)


@pytest.fixture(scope="module")
def cli(broker: RunningBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


def test_run_is_seen_and_obeys_when_it_is_paused_resumed_restarted_and_stopped(cli: Cli) -> None:
    see_a_run_paused_resumed_restarted_and_stopped(cli)


def test_run_is_lost_when_its_process_was_killed(cli: Cli) -> None:
    name = unique_name()
    with fake_run(cli, name) as process:
        process.kill()
        process.wait()
        wait_until(lambda: run_of(cli, name)["state"] == "lost")
    assert run_of(cli, name)["last_state"] == "running"
    assert re.search(rf"{name}-\w+ +lost ", cli.run("pipeline", "list", "--running").text)
    refused = cli.try_run("pipeline", "stop", name)
    assert refused.code == 1
    assert re.search(r"has sent no heartbeat for [\d,]+ s: it is lost", refused.err)


def test_another_run_of_the_same_name_is_left_alone_when_one_is_named(cli: Cli) -> None:
    name = unique_name()
    with fake_run(cli, name), fake_run(cli, name):
        second, first = runs_of(cli, name)
        refused = cli.try_run("pipeline", "pause", name)
        assert refused.code == 1
        assert f"{name} has 2 runs: name one of them" in refused.err
        assert first["run"] in refused.err
        assert second["run"] in refused.err
        cli.run("pipeline", "pause", first["run"])
        assert {run["run"]: run["state"] for run in runs_of(cli, name)} == {
            first["run"]: "paused",
            second["run"]: "running",
        }


def test_it_says_so_when_the_batch_under_way_takes_longer_than_the_wait(cli: Cli) -> None:
    name = unique_name()
    with fake_run(cli, name, batch_s=3.0):
        late = cli.try_run("pipeline", "pause", name, "--wait", "0.5")
        assert late.code == 1
        assert "is still pausing after 0.5 s: it finishes the batch under way" in late.err
        wait_until(lambda: run_of(cli, name)["state"] == "paused")
        assert "asked to resume" in cli.run("pipeline", "resume", name, "--wait", "0").text
        wait_until(lambda: run_of(cli, name)["state"] == "running")


def test_it_says_so_when_there_is_no_such_run(cli: Cli) -> None:
    refused = cli.try_run("pipeline", "pause", "nobody")
    assert (refused.code, "there is no run 'nobody'" in refused.err) == (1, True)
    assert cli.try_run("pipeline", "list").code == 2
    empty = cli.run("pipeline", "list", "--running", "--runs-topic", "not-there")
    assert (empty.text, empty.err) == ("", "No pipeline runs.\n")


def test_others_are_still_seen_when_garbage_is_in_the_topic(cli: Cli) -> None:
    name = unique_name()
    with fake_run(cli, name):
        producer = Producer({"bootstrap.servers": cli.bootstrap_servers})
        producer.produce("_penstock_runs", b"garbage", b"garbage")
        producer.produce("_penstock_runs", b'{"v": 99}', b"from-the-future")
        producer.produce("_penstock_commands", b"\xff\xfe", b"garbage")
        assert producer.flush(30) == 0
        listed = cli.run("pipeline", "list", "--running")
        assert name in listed.text
        assert "its version 99 is newer than 1" in listed.err
        cli.run("pipeline", "pause", name)
        producer.produce("_penstock_runs", None, b"garbage")
        assert producer.flush(30) == 0


def test_the_topics_are_made_for_their_purpose_when_a_run_makes_them(cli: Cli) -> None:
    with fake_run(cli, unique_name()):
        admin = AdminClient({"bootstrap.servers": cli.bootstrap_servers})
        resource = ConfigResource(ResourceType.TOPIC, "_penstock_runs")
        config = admin.describe_configs([resource])[resource].result(30)
        assert config["cleanup.policy"].value == "compact"
        assert config["message.timestamp.type"].value == "LogAppendTime"
