"""The parts of the cluster's bench that need no broker."""

from __future__ import annotations

from bench.against import Ratios
from bench.cluster.clusters import NODE_IDS
from bench.cluster.rows import CLUSTER_ROWS
from bench.cluster.run import BEGIN, CLUSTER_NAMES, END
from bench.cluster.topics import replicas_led_by
from bench.gathering import alternate
from bench.report import DOCUMENT
from bench.rows import Samples, compare


def test_a_chosen_broker_leads_and_all_have_a_replica_when_a_topic_is_placed() -> None:
    for leader in NODE_IDS:
        replicas = replicas_led_by(leader)
        assert replicas[0] == leader
        assert sorted(replicas) == list(NODE_IDS)


def test_rows_and_names_are_unique_when_chosen_by_name() -> None:
    assert len({row.key for row in CLUSTER_ROWS}) == len(CLUSTER_ROWS)
    assert len(set(CLUSTER_NAMES)) == len(CLUSTER_NAMES)


def test_each_goes_first_in_turn_when_rounds_alternate() -> None:
    assert [list(alternate([1, 2], number)) for number in range(3)] == [[1, 2], [2, 1], [1, 2]]


def test_a_figure_is_judged_by_the_clusters_goal_when_the_single_broker_has_another() -> None:
    samples: Samples = {"Penstock": {"memory-loaded": [200]}, "Apache Kafka": {"memory-loaded": [900]}}
    (comparison,) = compare(samples, CLUSTER_ROWS)
    assert (comparison.row.goal, comparison.is_met) == ("0.2 times or less", False)


def test_the_page_has_a_place_for_the_result_when_it_is_to_be_written() -> None:
    text = DOCUMENT.read_text()
    assert text.index(BEGIN) < text.index(END)


def test_the_median_of_the_rounds_is_judged_when_another_commit_is_measured_beside() -> None:
    ratios = Ratios("produce", ours=[10.0, 21.0, 10.4], theirs=[10.0, 10.0, 10.0])
    assert ratios.is_met
    assert "ratio 1.040" in ratios.describe()
    assert "all 1.000 to 2.100" in ratios.describe()
    assert not Ratios("produce", ours=[11.0], theirs=[10.0]).is_met
