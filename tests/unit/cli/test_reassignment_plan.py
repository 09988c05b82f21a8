from __future__ import annotations

import json

import pytest

from penstock.admin.state.brokers import BrokerState, ReplicaFiles
from penstock.admin.state.partitions import PartitionState
from penstock.cli.commands.replica_moves import find_throttled, raise_unmoved
from penstock.cli.errors import CliError, UsageError
from penstock.cli.plans.assignments import (
    ClusterNow,
    Reassignment,
    ReplicaPlace,
    Replicas,
    choose_partitions,
    format_reassignment,
    parse_broker_ids,
    parse_partition_list,
    parse_reassignment,
    parse_topics,
)
from penstock.cli.plans.demotion import plan_demotion
from penstock.cli.plans.progress import (
    MoveState,
    Overview,
    Sample,
    bytes_to_move,
    directory_moves_under_way,
    misplaced_replicas,
    seconds_left,
    sort_misplaced,
    survey,
)
from penstock.cli.plans.spread import Wish, changed_only, plan_spread
from penstock.cli.plans.throttles import Move, find_moves, moving_brokers, parse_rate, throttled_replicas
from penstock.cli.views.moves import balance_table, broker_counts_table, count_brokers, summary
from penstock.core.types import TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
BROKERS = {number: BrokerState(number, "host", 9090 + number) for number in (1, 2, 3)}


def state(
    leader: int, replicas: Replicas, isr: Replicas, adding: Replicas = (), removing: Replicas = ()
) -> PartitionState:
    return PartitionState("t", 0, leader, replicas, isr, adding, removing)


def cluster(**partitions: PartitionState) -> ClusterNow:
    return ClusterNow(1, BROKERS, {TopicPartition("t", int(name[1:])): each for name, each in partitions.items()})


# ---------------------------------------------------------------------------------------------------- files


def test_file_is_read_as_it_was_written_when_it_is_kafkas() -> None:
    assignment = {P1: (2, 3), P0: (1, 2)}
    text = format_reassignment(assignment)
    assert text == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"t","partition":1,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    )
    assert parse_reassignment(text) == (assignment, {})


def test_directories_are_kept_when_the_file_names_some() -> None:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/disk2"]}
    read = parse_reassignment(json.dumps({"partitions": [entry]}))
    assert read.directories == {ReplicaPlace(P0, 2): "/disk2"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"version":2,"partitions":[]}', "version 2"),
        ('{"version":1}', "no list of partitions"),
        ('{"topics":[{"topic":"t"}]}', "names topics"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "no list of replicas"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "broker 1 twice"),
        ('{"partitions":[{"topic":"t","partition":-1,"replicas":[1]}]}', "names no partition"),
        ('{"partitions":[{"topic":"t","partition":true,"replicas":[1]}]}', "names no partition"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":[]}]}', "1 replicas and 0 log_dirs"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
            "t-0 twice",
        ),
    ],
)
def test_file_is_refused_with_the_reason_when_it_makes_no_sense(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_reassignment(text)
    assert complaint in raised.value.message


def test_topics_and_partitions_are_read_when_the_file_has_no_replicas() -> None:
    assert parse_topics('{"version":1,"topics":[{"topic":"a"},{"topic":"b"},{"topic":"a"}]}') == ["a", "b"]
    assert parse_partition_list('{"partitions":[{"topic":"t","partition":1}]}') == [P1]
    for text in ('{"topics":[]}', '{"topics":[{"name":"a"}]}', '{"topics":["a"]}'):
        with pytest.raises(UsageError):
            parse_topics(text)


def test_broker_ids_are_read_when_they_are_listed_or_repeated() -> None:
    assert parse_broker_ids(["3,1", "1"]) == [3, 1]
    with pytest.raises(UsageError):
        parse_broker_ids(["1,-2"])


def test_topic_is_refused_when_it_is_not_there() -> None:
    now = cluster(p0=state(1, (1,), (1,)))
    assert list(choose_partitions(now, None)) == [P0]
    with pytest.raises(UsageError):
        choose_partitions(now, ["other"])


# ---------------------------------------------------------------------------------------------------- plans


def test_plan_is_refused_when_there_are_not_enough_brokers() -> None:
    with pytest.raises(CliError) as raised:
        plan_spread({P0: (1, 2, 3)}, Wish({1: None, 2: None}))
    assert "would have 3 replicas" in raised.value.message


def test_leader_and_order_stay_when_one_replica_is_replaced() -> None:
    planned = plan_spread({P0: (3, 2, 1)}, Wish({1: None, 3: None, 4: None}, is_balanced=False))
    assert planned == {P0: (3, 1, 4)}


def test_replica_that_has_the_records_leads_when_the_leader_leaves() -> None:
    current = {P0: (1, 2), P1: (3, 2)}
    planned = plan_spread(current, Wish({2: None, 3: None, 4: None}, is_balanced=False))
    assert changed_only(current, planned) == {P0: (2, 4)}


def test_broker_becomes_the_last_replica_when_it_is_demoted() -> None:
    now = cluster(
        p0=state(1, (1, 2, 3), (1, 2, 3)),
        p1=state(2, (2, 1), (2, 1)),
        p2=state(1, (1,), (1,)),
    )
    demotion = plan_demotion(now, 1)
    assert demotion.wanted == {P0: (2, 3, 1)}
    assert demotion.before == {P0: (1, 2, 3)}
    assert demotion.led == (P0,)
    assert demotion.alone == (P2,)


# ---------------------------------------------------------------------------------------------------- throttles


def test_only_moving_replicas_are_throttled_when_a_plan_keeps_some() -> None:
    now = {
        P0: state(1, (1, 2), (1, 2)),
        P1: state(1, (1, 2), (1, 2)),
        P2: state(1, (3, 1, 2), (1, 2), adding=(3,), removing=(1,)),
    }
    moves = find_moves(now, {P0: (2, 3), P1: (2, 1)})
    assert moves == {P0: Move((1, 2), (3,)), P2: Move((1, 2), (3,))}
    assert throttled_replicas(moves) == {"t": ("0:1,0:2,2:1,2:2", "0:3,2:3")}
    assert moving_brokers(moves) == [1, 2, 3]


def test_plan_is_refused_when_the_names_of_its_replicas_do_not_fit_into_a_setting() -> None:
    moves = {TopicPartition("t", number): Move((1,), (2,)) for number in range(6_000)}
    with pytest.raises(CliError, match="6,000 partitions of t move") as refused:
        throttled_replicas(moves)
    assert "--throttle none" in refused.value.hint


def test_throttles_of_moves_that_were_under_way_are_ended_too_when_new_moves_set_them() -> None:
    moving = state(1, (3, 1, 2), (1, 2), adding=(3,), removing=(1,))
    now = ClusterNow(1, BROKERS, {P0: state(1, (1, 2), (1, 2)), TopicPartition("other", 0): moving})
    wanted = Reassignment({P0: (2, 3)}, {})
    assert find_throttled(now, wanted, "20m") == {"t", "other"}
    assert find_throttled(now, wanted, "none") == {"t"}


def test_rate_is_read_when_it_has_a_unit_or_is_none() -> None:
    assert parse_rate("20m") == 20 << 20
    assert parse_rate("none") is None
    for wrong in ("0", "fast"):
        with pytest.raises(UsageError):
            parse_rate(wrong)


# ---------------------------------------------------------------------------------------------------- progress


MOVING = state(1, (3, 1, 2), (1, 2), adding=(3,), removing=(1,))
SIZES = {ReplicaPlace(P0, 1): 1000, ReplicaPlace(P0, 2): 900, ReplicaPlace(P0, 3): 400}


def test_rest_is_what_the_leader_has_more_when_a_replica_comes() -> None:
    overview = survey(cluster(p0=MOVING, p1=state(1, (1, 2), (1, 2))), SIZES)
    assert [(move.key, move.state, move.bytes_left) for move in overview.moves] == [(P0, MoveState.MOVING, 600)]
    assert summary(overview, 75.4) == "Moves: 1 under way. 600 B left, about 1 min 15 s."
    in_sync = MOVING._replace(isr=(1, 2, 3))
    assert survey(cluster(p0=in_sync), SIZES).bytes_left == 0


def test_states_are_told_apart_when_a_file_is_compared() -> None:
    now = cluster(p0=MOVING, p1=state(1, (1, 2), (1, 2)))
    gone = TopicPartition("gone", 0)

    def states(**wanted: tuple[int, ...]) -> list[MoveState]:
        keys = {TopicPartition("t", int(name[1:])): replicas for name, replicas in wanted.items()}
        return [move.state for move in survey(now, {}, keys).moves]

    assert states(p0=(3, 2), p1=(1, 2)) == [MoveState.MOVING, MoveState.DONE]
    assert states(p0=(2, 3), p1=(2, 1)) == [MoveState.OTHER_TARGET, MoveState.ELSEWHERE]
    overview = survey(now, {}, {gone: (1,)})
    assert [move.state for move in overview.failed] == [MoveState.UNKNOWN]
    assert overview.others == 1


def test_each_new_replica_is_copied_whole_when_the_volume_is_counted() -> None:
    now = cluster(p0=state(1, (1, 2), (1, 2)))
    assert bytes_to_move(now, {P0: (2, 3, 4)}, SIZES) == {P0: 2000}
    assert bytes_to_move(now, {P0: (2, 1)}, SIZES) == {P0: 0}


def test_time_left_follows_the_speed_when_something_moves() -> None:
    assert seconds_left(Sample(10.0, 1000), Sample(12.0, 800)) == 8.0
    assert seconds_left(Sample(10.0, 1000), Sample(12.0, 0)) == 0.0
    assert seconds_left(Sample(10.0, 1000), Sample(12.0, 1000)) is None


def test_replica_is_misplaced_when_it_is_neither_there_nor_on_its_way() -> None:
    wanted = {ReplicaPlace(P0, node): "/b" for node in (1, 2, 3)}
    files = {ReplicaPlace(P0, 1): ReplicaFiles("/b", 1), ReplicaPlace(P0, 2): ReplicaFiles("/a", 1, "/b", 1)}
    assert misplaced_replicas(wanted, files) == {ReplicaPlace(P0, 3): "/b"}
    assert directory_moves_under_way(wanted, files) == [ReplicaPlace(P0, 2)]


def test_misplaced_replica_is_not_asked_for_again_when_its_move_has_begun_and_ended() -> None:
    ended, lost, new = (ReplicaPlace(P0, node) for node in (1, 2, 3))
    files = {ended: ReplicaFiles("/a", 1), new: ReplicaFiles("/a", 1)}
    found = sort_misplaced(dict.fromkeys((ended, lost, new), "/b"), files, {ended, lost})
    assert found.to_ask == {lost: "/b", new: "/b"}
    assert found.stranded == (ended,)
    with pytest.raises(CliError, match="t-0 on broker 1 does not move and is not in the directory of the file"):
        raise_unmoved(Overview((), 0, found.stranded))


# ---------------------------------------------------------------------------------------------------- views


def test_broker_that_is_away_is_listed_when_it_has_replicas() -> None:
    now = cluster(p0=state(1, (1, 9), (1,)))
    assert now.missing_brokers == [9]
    rows = broker_counts_table(count_brokers(now, SIZES)).rows
    assert rows[0][:8] == ("1", "host:9091", "-", "yes", "1", "1", "1", "0")
    assert rows[-1] == ("9", "away", "-", "", "1", "0", "0", "1", "-")


def test_replica_does_not_lag_when_a_move_is_adding_it() -> None:
    now = cluster(p0=state(1, (1, 2, 3), (1,), adding=(3,), removing=(2,)))
    assert [view.lagging for view in count_brokers(now, SIZES)] == [0, 1, 0]


def test_brokers_are_counted_before_and_after_when_a_plan_is_shown() -> None:
    rows = balance_table({P0: (1, 2)}, {P0: (2, 3)}, [1, 2, 3]).rows
    assert rows == [("1", "1", "0", "1", "0"), ("2", "1", "1", "0", "1"), ("3", "0", "1", "0", "0")]
