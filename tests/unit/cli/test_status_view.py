"""How `cluster status` shows a cluster."""

from __future__ import annotations

from penstock.admin.state.cluster import ClusterState
from penstock.cli.output import render_plain
from penstock.cli.text import format_duration
from penstock.cli.views.status import (
    StatusView,
    finding_lines,
    head,
    lag_table,
    lags_of_the_present,
    move_table,
    status_brokers,
    status_document,
)
from penstock.health.condition import Lag, Move, judge
from penstock.health.findings import find
from tests.unit.admin.pictured import GIB, broker, partition, pictured


def view_of(seen: ClusterState) -> StatusView:
    condition = judge(seen)
    return StatusView(condition, find(condition))


BROKEN = pictured(
    [partition(0, 1, [1, 2, 4], [1]), partition(1, 2, [4, 2], [2]), partition(2, -1, [4], [4])],
    log_ends={(0, 1): 100, (0, 2): 40},
)


def test_every_broker_has_its_line_when_one_is_gone() -> None:
    assert render_plain(status_brokers(view_of(BROKEN))) == (
        "ID  ADDRESS    RACK  STATE    CONTROLLER  LEADS  REPLICAS  LAGGING     DATA  DISK      FREE\n"
        " 1  host:9091  -     running  yes           1/1         1        0  1.0 GiB  50 %  50.0 GiB\n"
        " 2  host:9092  -     running                1/0         2        1  1.0 GiB  50 %  50.0 GiB\n"
        " 3  host:9093  -     running                0/0         0        0  1.0 GiB  50 %  50.0 GiB\n"
        " 4  -          -     gone                   0/2         3        2        -     -         -\n"
    )


def test_head_tells_what_counts_when_something_is_wrong() -> None:
    assert dict(head(view_of(BROKEN))) == {
        "Cluster": "cluster",
        "State": "4 problems",
        "Controller": 1,
        "Partitions": "3 in 1 topic: 1 offline, 2 below minimum, 2 under-replicated",
    }
    assert dict(head(view_of(pictured([partition(0, 1, [1, 2, 3])]))))["State"] == "healthy"


def test_lags_of_brokers_that_are_gone_are_left_out_when_they_are_listed() -> None:
    lags = lags_of_the_present(view_of(BROKEN).condition)
    assert render_plain(lag_table(lags)).splitlines()[1:] == ["t-0                   2       1              60"]


def test_farthest_replica_comes_first_when_many_lag() -> None:
    lags = [Lag(partition(index, 1, [1, 2]), 2, behind) for index, behind in enumerate([None, 5, 70, 0])]
    assert [row[0] for row in lag_table(lags).rows] == ["t-2", "t-1", "t-3", "t-0"]


def test_move_shows_what_is_left_when_its_rate_is_known() -> None:
    moving = partition(0, 1, [1, 2, 3])
    moves = [Move(moving, 1, 3, GIB, 3 * GIB, GIB / 60), Move(moving, 2, 2, 0, 10)]
    rows = [line.split() for line in render_plain(move_table(moves)).splitlines()[1:]]
    assert rows == [
        ["t-0", "1", "3", "1.0", "GiB", "3.0", "GiB", "17.1", "MiB", "2", "min", "0", "s"],
        ["t-0", "2", "other", "disk", "0", "B", "10", "B", "-", "-"],
    ]


def test_advice_is_given_once_when_several_brokers_have_the_same_problem() -> None:
    silent = [broker(1), broker(2, silence="no"), broker(3, silence="no")]
    (paragraph,) = finding_lines(find(judge(pictured(brokers=silent))))
    assert len(paragraph) == 4
    assert paragraph[:2] == [
        "! Broker 2 is registered and does not answer: no.",
        "! Broker 3 is registered and does not answer: no.",
    ]
    assert paragraph[3] == "  $ penstock cluster api-versions --broker 2"


def test_document_has_everything_when_a_program_asks() -> None:
    document = status_document(view_of(BROKEN))
    assert not document["healthy"]
    assert [each["partition"] for each in document["offline"]] == [2]
    assert document["lagging"][0] == {"topic": "t", "partition": 0, "broker": 2, "records_behind": 60}
    assert document["gone_brokers"] == [{"id": 4, "replicas": 3}]
    assert {finding["severity"] for finding in document["findings"]} == {"problem"}


def test_duration_is_told_in_two_units_when_it_is_long() -> None:
    durations = [format_duration(seconds) for seconds in (3.4, 75, 3_700, 90_000)]
    assert durations == ["3 s", "1 min 15 s", "1 h 1 min", "1 d 1 h"]
