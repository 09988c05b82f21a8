"""`penstock reassign`, `brokers` and `leaders` on four brokers in memory. Against processes, against Apache Kafka, and
beside Kafka's own tools: tests/interop/cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewTopic

import penstock
from tests.clients.cli_runner import Cli
from tests.clients.confluent import admin_of, produce, producer_of, read_topic, values
from tests.clients.support import PATIENCE_S, new_name

RECORDS = [b"%d" % number for number in range(200)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[penstock.Cluster]:
    settings = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "1"}  # who leads is what the tests did
    with penstock.Cluster(4, store="memory", config=settings) as started:
        yield started


@pytest.fixture
def cli(cluster: penstock.Cluster) -> Cli:
    return Cli(cluster.bootstrap_servers)


def place(cluster: penstock.Cluster, *replicas: Sequence[int]) -> str:
    """A topic whose partitions have these replicas, and records in the first."""
    topic = new_name("moves")
    wanted = NewTopic(topic, len(replicas), replica_assignment=[list(each) for each in replicas])
    admin_of(cluster.bootstrap_servers).create_topics([wanted])[topic].result(PATIENCE_S)
    cluster.wait_until_in_sync()
    produce(producer_of(cluster.bootstrap_servers), topic, RECORDS, partition=0)
    return topic


def replicas_of(cli: Cli, topic: str) -> list[list[int]]:
    (described,) = cli.run("topics", "describe", topic, "--json").json
    return [partition["replicas"] for partition in described["partitions"]]


def leaders_of(cli: Cli, topic: str) -> list[int]:
    (described,) = cli.run("topics", "describe", topic, "--json").json
    return [partition["leader"] for partition in described["partitions"]]


def write_plan(path: Path, topic: str, *replicas: Sequence[int]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": list(each)} for index, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def throttles(cli: Cli, topic: str) -> list[str]:
    """What is throttled: the settings of the topic, and the brokers that have a rate."""
    (described,) = cli.run("topics", "describe", topic, "--json").json
    found = [f"{key}={value}" for key, value in described["configs"].items() if "throttled" in key]
    for node in (1, 2, 3, 4):
        settings = cli.run("configs", "describe", "--broker", str(node), "--json").json["settings"]
        found += [f"{node} {each['name']}" for each in settings if "throttled" in each["name"]]
    return sorted(found)


# ---------------------------------------------------------------------------------------------------- reassign


def test_replicas_move_there_and_back_when_a_plan_is_applied_and_rolled_back(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic = place(cluster, [1, 2], [2, 1], [1, 2], [2, 1])
    plan, rollback = tmp_path / "plan.json", tmp_path / "rollback.json"
    shown = cli.run(
        "reassign", "plan", "--topic", topic, "--out", str(plan), "--rollback", str(rollback), "--json"
    ).json
    assert shown["proposed"] == json.loads(plan.read_text())
    assert shown["current"] == json.loads(rollback.read_text())
    assert shown["replicas_to_move"] == 4  # two for each of the others
    assert shown["bytes_to_move"] >= len(RECORDS)
    assert "Would move" in cli.run("reassign", "apply", str(plan), "--dry-run").err
    assert sorted(map(sorted, replicas_of(cli, topic))) == [[1, 2]] * 4

    applied = cli.run("reassign", "apply", str(plan))
    assert "Done: " in applied.err
    assert "Removed the throttles of " in applied.err
    counts = [node for replicas in replicas_of(cli, topic) for node in replicas]
    assert sorted(counts) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert throttles(cli, topic) == []
    assert values(read_topic(cluster.bootstrap_servers, topic, len(RECORDS))) == RECORDS

    cli.run("reassign", "apply", str(rollback), "--throttle", "none")
    assert replicas_of(cli, topic) == [[1, 2], [2, 1], [1, 2], [2, 1]]
    assert "are there, or on their way" in cli.run("reassign", "apply", str(rollback)).err  # again: nothing happens


def test_throttles_stay_until_the_status_is_asked_for_when_apply_does_not_wait(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic = place(cluster, [1, 2], [3, 4])
    plan = write_plan(tmp_path / "plan.json", topic, [1, 3], [4, 3])
    cli.run("reassign", "apply", plan, "--no-wait", "--throttle", "50m")
    # Only what moves: the other partition changes its order alone.
    assert throttles(cli, topic) == [
        *(f"{node} {side}.replication.throttled.rate" for node in (1, 2, 3) for side in ("follower", "leader")),
        "follower.replication.throttled.replicas=0:3",
        "leader.replication.throttled.replicas=0:1,0:2",
    ]
    status = cli.run("reassign", "status", plan, "--wait", "--json", "--keep-throttles").json
    assert [move["state"] for move in status["moves"]] == ["done", "done"]
    assert throttles(cli, topic) != []
    assert "Removed the throttles of broker 1" in cli.run("reassign", "status").err
    assert throttles(cli, topic) == []
    assert replicas_of(cli, topic) == [[1, 3], [4, 3]]


def test_throttles_are_removed_when_nothing_began_to_move(cluster: penstock.Cluster, cli: Cli, tmp_path: Path) -> None:
    topic = place(cluster, [1, 2])
    plan = tmp_path / "plan.json"
    entry = {"topic": topic, "partition": 0, "replicas": [1, 3], "log_dirs": ["any", "/no/such/directory"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    refused = cli.try_run("reassign", "apply", str(plan))
    assert refused.code == 1
    assert "Throttled to " in refused.err
    assert "Removed the throttles of broker 1" in refused.err
    assert throttles(cli, topic) == []
    assert replicas_of(cli, topic) == [[1, 2]]


def test_throttles_are_lifted_when_a_file_is_applied_again_without(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic = place(cluster, [1, 2])
    plan = write_plan(tmp_path / "plan.json", topic, [1, 3])
    cli.run("reassign", "apply", plan, "--no-wait", "--throttle", "50m")
    assert throttles(cli, topic) != []
    cli.run("reassign", "apply", plan, "--no-wait", "--throttle", "none")
    assert throttles(cli, topic) == []
    cli.run("reassign", "status", plan, "--wait")


def test_throttle_for_all_replicas_stays_when_no_file_says_whose_it_is(cluster: penstock.Cluster, cli: Cli) -> None:
    topic = place(cluster, [1, 2])
    cli.run("configs", "alter", "--topic", topic, "--set", "leader.replication.throttled.replicas=*")
    assert "they stay" in cli.run("reassign", "status").err
    assert throttles(cli, topic) == ["leader.replication.throttled.replicas=*"]
    cli.run("topics", "delete", topic, "--yes")


def test_factor_rises_and_falls_when_a_plan_says_so(cluster: penstock.Cluster, cli: Cli, tmp_path: Path) -> None:
    topic = place(cluster, [1], [2])
    plan = tmp_path / "plan.json"
    cli.run("reassign", "plan", "-t", topic, "--replication-factor", "3", "-o", str(plan))
    cli.run("reassign", "apply", str(plan))
    assert [len(replicas) for replicas in replicas_of(cli, topic)] == [3, 3]
    assert [replicas[0] for replicas in replicas_of(cli, topic)] == [1, 2]
    cli.run("reassign", "plan", "-t", topic, "--replication-factor", "1", "-o", str(plan))
    assert cli.try_run("reassign", "apply", str(plan)).code == 2  # fewer replicas: nobody is there to confirm it
    cli.run("reassign", "apply", str(plan), "--yes")
    assert replicas_of(cli, topic) == [[1], [2]]
    assert values(read_topic(cluster.bootstrap_servers, topic, len(RECORDS))) == RECORDS


def test_plan_is_kept_to_the_named_brokers_when_topics_come_from_a_file(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic = place(cluster, [1, 2], [1, 2])
    chosen = tmp_path / "topics.json"
    chosen.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    planned = cli.run("reassign", "plan", "-f", str(chosen), "--to", "3,4", "--json").json["proposed"]["partitions"]
    assert [sorted(entry["replicas"]) for entry in planned] == [[3, 4], [3, 4]]
    text = cli.run("reassign", "plan", "-t", topic, "--drain", "1").text
    assert "Proposed assignment:" in text
    assert "brings everything back:" in text
    assert cli.run("reassign", "plan", "-t", topic, "--to", "1,2", "--json").json["replicas_to_move"] == 0


def test_command_is_refused_and_says_why_when_it_cannot_be_done(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic = place(cluster, [1, 2])
    plan = tmp_path / "plan.json"
    for arguments, code, reason in (
        (["reassign", "apply", write_plan(plan, topic, [1, 9])], 1, "there is no broker 9"),
        (["reassign", "plan", "-t", topic, "--to", "1", "--json"], 1, "would have 2 replicas"),
        (["reassign", "plan", "-t", "no-such-topic"], 2, "there is no topic no-such-topic"),
        (["reassign", "plan", "--to", "8"], 1, "there is no broker 8"),
        (["reassign", "cancel"], 2, "say which moves to cancel"),
        (["reassign", "apply", str(tmp_path / "no-such-file")], 2, "no-such-file: there is no such file"),
        (["reassign", "apply", str(plan), "--throttle", "0"], 2, "nothing would move"),
        (["brokers", "decommission", "9"], 1, "there is no broker 9"),
        (["brokers", "demote", "9"], 1, "there is no broker 9"),
        (["brokers", "unregister", "9"], 1, "Broker ID 9 is not currently registered"),
        (["brokers", "unregister", "1"], 1, "broker 1 is running"),
        (["brokers", "demote", "1", "--undo", "--file", str(tmp_path / "none")], 1, "there is no file"),
        (["leaders", "elect"], 2, "say whose leaders"),
        (["leaders", "elect", "--topic", "no-such-topic"], 1, "there is no topic"),
    ):
        refused = cli.try_run(*arguments)
        assert refused.code == code, (arguments, refused)
        assert reason in refused.err
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 7, "replicas": [1]}]}))
    assert "there is no partition" in cli.try_run("reassign", "apply", str(plan)).err
    assert "no such partition" in cli.try_run("reassign", "status", str(plan)).err
    assert "Nothing of it moves" in cli.run("reassign", "cancel", "--all").err


def test_status_fails_when_nothing_moves_and_the_file_is_not_followed(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic = place(cluster, [1, 2])
    status = cli.try_run("reassign", "status", write_plan(tmp_path / "plan.json", topic, [3, 4]), "--json")
    assert status.code == 1
    assert status.json["moves"][0]["state"] == "elsewhere"
    assert "Nothing moves." in cli.run("reassign", "status").err


# ---------------------------------------------------------------------------------------------------- brokers


def test_broker_may_stop_when_it_was_decommissioned(cluster: penstock.Cluster, cli: Cli) -> None:
    topic, alone = place(cluster, [1, 2, 4], [4, 3, 1]), place(cluster, [4])
    dry = cli.run("brokers", "decommission", "4", "--dry-run", "--json").json
    assert dry["replicas"] >= 3
    assert replicas_of(cli, alone) == [[4]]
    drained = cli.run("brokers", "decommission", "4", "--json")
    assert drained.json == {"broker": 4, "replicas": 0, "may_stop": True}
    assert "It may stop" in drained.err
    assert all(4 not in replicas for name in (topic, alone) for replicas in replicas_of(cli, name))
    assert [sorted(replicas) for replicas in replicas_of(cli, topic)] == [[1, 2, 3], [1, 2, 3]]
    assert values(read_topic(cluster.bootstrap_servers, alone, len(RECORDS))) == RECORDS
    assert {row["id"]: row["replicas"] for row in cli.run("brokers", "list", "--json").json}[4] == 0
    assert cli.run("brokers", "decommission", "4", "--json").json["may_stop"]  # again
    assert throttles(cli, topic) == []


def test_broker_is_forgotten_when_it_is_gone_for_good(cluster: penstock.Cluster, cli: Cli) -> None:
    topic = place(cluster, [1, 2, 4])
    cluster.stop_broker(4)
    cluster.wait_until_ready()

    def listed() -> dict[int, str | None]:
        return {row["id"]: row["address"] for row in cli.run("brokers", "list", "--json").json}

    try:
        assert listed()[4] is None
        refused = cli.try_run("brokers", "unregister", "4")
        assert refused.code == 1
        assert "have a replica on broker 4" in refused.err
        drained = cli.run("brokers", "decommission", "4")
        assert "is not registered any more" in drained.err
        assert 4 not in listed()
        assert replicas_of(cli, topic) == [[1, 2, 3]]
        assert "there is no broker 4" in cli.try_run("brokers", "decommission", "4").err
    finally:
        cluster.start_broker(4)
    cluster.wait_until_in_sync()
    cluster.stop_broker(4)  # with nothing on it
    cluster.wait_until_ready()
    try:
        assert listed()[4] is None
        assert cli.run("brokers", "unregister", "4", "--json").json == {"broker": 4, "unregistered": True}
        assert 4 not in listed()
    finally:
        cluster.start_broker(4)
    cluster.wait_until_in_sync()
    assert listed()[4] is not None


def test_broker_is_not_drained_when_too_few_would_be_left(cluster: penstock.Cluster, cli: Cli) -> None:
    topic = place(cluster, [1, 2, 3, 4])
    refused = cli.try_run("brokers", "decommission", "4")
    assert refused.code == 1
    assert f"topics have more replicas: {topic} (4)" in refused.err
    assert "--replication-factor 3" in refused.err
    cli.run("topics", "delete", topic, "--yes")


def test_broker_leads_nothing_that_others_have_when_it_is_demoted_until_that_is_undone(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic, alone = place(cluster, [1, 2, 3], [2, 1, 3]), place(cluster, [1])
    memory = tmp_path / "before.json"
    planned = cli.run("brokers", "demote", "1", "--file", str(memory), "--dry-run").err.splitlines()[0]
    demoted = cli.run("brokers", "demote", "1", "--file", str(memory), "--json")
    told = demoted.err.splitlines()[0]
    assert planned == told.replace("Put", "Would put")
    counts = "among the replicas of (\\d+) partitions; .* (\\d+) partitions?"
    assert f"{alone}-0" in demoted.json["alone"]
    assert replicas_of(cli, topic) == [[2, 3, 1], [2, 3, 1]]
    assert leaders_of(cli, topic) == [2, 2]
    cli.run("brokers", "demote", "1", "--file", str(memory))  # again: the file still tells how it was
    undone = cli.run("brokers", "demote", "1", "--undo", "--file", str(memory), "--json")
    # Both count in the same way.
    assert re.findall(counts, undone.err) == re.findall(counts, told) != []
    both = ("reordered", "leaders_moved")
    assert [undone.json[name] for name in both] == [demoted.json[name] for name in both]
    assert replicas_of(cli, topic) == [[1, 2, 3], [2, 1, 3]]
    assert leaders_of(cli, topic) == [1, 2]
    assert not memory.exists()


def test_brokers_are_listed_with_what_they_have_when_asked_for(cluster: penstock.Cluster, cli: Cli) -> None:
    place(cluster, [1, 2])
    rows = cli.run("brokers", "list", "--json").json
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert sum(row["is_controller"] for row in rows) == 1
    assert rows[0]["size"] > 0
    assert cli.run("brokers", "list").text.splitlines()[0].split() == [
        "ID", "ADDRESS", "RACK", "CONTROLLER", "REPLICAS", "LEADS", "PREFERRED", "LAGGING", "SIZE",
    ]  # fmt: skip


def test_nothing_is_done_and_nothing_is_wrong_when_a_plan_is_empty(cli: Cli, tmp_path: Path) -> None:
    """`plan` wrote the file, and `apply` refused it."""
    empty = tmp_path / "plan.json"
    empty.write_text('{"version": 1, "partitions": []}')
    for command in ("apply", "status"):
        assert "There is nothing to do: the plan is empty." in cli.run("reassign", command, str(empty)).err


# ---------------------------------------------------------------------------------------------------- leaders


def test_first_replica_leads_when_the_preferred_leaders_are_elected(
    cluster: penstock.Cluster, cli: Cli, tmp_path: Path
) -> None:
    topic = place(cluster, [1, 2], [2, 1])
    cli.run("reassign", "apply", write_plan(tmp_path / "plan.json", topic, [2, 1], [1, 2]))
    assert leaders_of(cli, topic) == [1, 2]
    (first,) = cli.run("leaders", "elect", "--topic", f"{topic}:0", "--json").json
    assert (first["partition"], first["result"]) == (0, "elected")
    assert leaders_of(cli, topic) == [2, 2]
    both = cli.run("leaders", "elect", "--file", str(tmp_path / "plan.json"), "--json").json
    assert [each["result"] for each in both] == ["not_needed", "elected"]
    assert leaders_of(cli, topic) == [2, 1]
    cli.run("leaders", "elect", "--all")
    refused = cli.try_run("leaders", "elect", "--unclean", "--topic", topic)
    assert refused.code == 2  # nobody is there to confirm it
    assert "lost for good" in refused.err


def test_election_fails_for_its_partition_alone_when_the_first_replica_is_away(
    cluster: penstock.Cluster, cli: Cli
) -> None:
    victim = next(node for node in (2, 3) if node != cluster.controller_id())
    topic = place(cluster, [victim, 1], [1, victim])
    cluster.stop_broker(victim)
    try:
        cluster.wait_until_ready()
        failed = cli.try_run("leaders", "elect", "--topic", topic, "--json")
        assert failed.code == 1
        assert [each["error"] for each in failed.json] == ["PREFERRED_LEADER_NOT_AVAILABLE", None]
        assert f"{topic}-0: the first replica is not there" in failed.err
        refused = cli.try_run("reassign", "plan", "-t", topic)
        assert f"broker {victim} has replicas and is not there" in refused.err
        under = cli.run("topics", "describe", "--under-replicated", "--json").json
        assert topic in [each["name"] for each in under]
        rows = {row["id"]: row for row in cli.run("brokers", "list", "--json").json}
        assert rows[victim]["address"] is None
    finally:
        cluster.restore()
        cluster.wait_until_in_sync()


def test_replica_that_misses_records_leads_when_an_unclean_election_is_confirmed(
    cluster: penstock.Cluster, cli: Cli
) -> None:
    last, behind = [node for node in (1, 2, 3, 4) if node != cluster.controller_id()][:2]
    topic = place(cluster, [last, behind])
    try:
        cluster.stop_broker(behind)
        cluster.wait_until_ready()
        produce(producer_of(cluster.bootstrap_servers), topic, [b"the last one alone has it"])
        cluster.stop_broker(last)
        cluster.start_broker(behind)
        cluster.wait_until_ready()
        (lost,) = cli.run("topics", "describe", topic, "--unavailable", "--json").json
        assert lost["partitions"][0]["leader"] is None
        assert cli.try_run("leaders", "elect", "--topic", topic).code == 1  # the preferred one is away
        (elected,) = cli.run("leaders", "elect", "--unclean", "--yes", "--topic", topic, "--json").json
        assert elected["result"] == "elected"
        assert leaders_of(cli, topic) == [behind]
    finally:
        cluster.restore()
        cluster.wait_until_in_sync()
    assert values(read_topic(cluster.bootstrap_servers, topic, len(RECORDS))) == RECORDS


def test_broker_that_is_away_is_named_when_its_replicas_were_throttled(cluster: penstock.Cluster, cli: Cli) -> None:
    victim = next(node for node in (2, 3) if node != cluster.controller_id())
    topic = place(cluster, [1, victim])
    cluster.stop_broker(victim)
    try:
        cluster.wait_until_ready()
        assert cli.run("reassign", "status").err == "Nothing moves.\n"
        cli.run("configs", "alter", "--topic", topic, "--set", f"follower.replication.throttled.replicas=0:{victim}")
        assert f"Broker {victim} is away and may keep a throttle" in cli.run("reassign", "status").err
    finally:
        cluster.restore()
        cluster.wait_until_in_sync()


# ---------------------------------------------------------------------------------------------------- topics


def test_filters_find_topics_and_partitions_when_they_are_asked_for(cluster: penstock.Cluster, cli: Cli) -> None:
    topic = place(cluster, [1, 2])

    def found(*arguments: str) -> bool:
        return topic in [each["name"] for each in cli.run("topics", "describe", "--json", *arguments).json]

    assert not found("--under-replicated")
    assert not found("--under-min-isr-partitions")
    assert not found("--topics-with-overrides")
    cli.run("configs", "alter", "--topic", topic, "--set", "min.insync.replicas=2")
    assert found("--at-min-isr")
    assert found("--with-overrides", "--exclude-internal")
    cli.run("configs", "alter", "--topic", topic, "--set", "min.insync.replicas=3")
    assert not found("--under-min-isr")  # more than there are counts as all of them, and acks=all is accepted
    assert found("--at-min-isr")
    assert "min.insync.replicas=3" in cli.run("topics", "describe", "--with-overrides").text
    assert cli.try_run("topics", "describe", "--with-overrides", "--unavailable").code == 2
