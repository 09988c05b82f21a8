"""The table of what can be wrong with a cluster."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from penstock.admin.state.brokers import DirectoryState
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.partitions import PartitionState, ReplicaKey
from penstock.admin.state.parts import Part
from penstock.cli.app import command
from penstock.health.condition import judge
from penstock.health.findings import RULES, Severity, find, is_healthy
from tests.unit.admin.pictured import GIB, broker, failing, partition, pictured, stored

WELL = pictured([partition(0, 1, [1, 2, 3]), partition(1, 2, [2, 3, 1]), partition(2, 3, [3, 1, 2])])
MOVING = partition(0, 1, [1, 2, 3], [1, 2])._replace(adding=(3,))


def names(seen: ClusterState, before: ClusterState | None = None) -> list[str]:
    return [finding.name for finding in find(judge(seen, before))]


def with_disk(used: float, *partitions: PartitionState) -> ClusterState:
    disk = DirectoryState("/data", "", 100 * GIB, int((1 - used) * 100 * GIB), (("orders", 60 * GIB), ("clicks", GIB)))
    return pictured(partitions, [broker(1, disk), broker(2), broker(3)])


def with_certificate(days: float) -> ClusterState:
    return pictured(brokers=[broker(1)._replace(certificate_left_s=days * 86_400), broker(2), broker(3)])


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (WELL, []),
        (pictured(controller=None), ["no-controller"]),
        (failing(WELL, Part.MOVES, "it is none"), ["controller-silent"]),
        (pictured([partition(0, 1, [1, 2, 4], [1, 2])]), ["broker-gone", "under-replicated"]),
        (pictured([partition(0, 1, [1, 2, 3], [1])]), ["below-minimum", "under-replicated"]),
        (pictured([partition(0, -1, [1, 2, 4], [4])]), ["broker-gone", "offline-partitions", "under-replicated"]),
        (pictured([partition(0, -1, [1, 2, 3], [3])]), ["offline-here", "under-replicated"]),
        (with_disk(0.99, partition(0, -1, [1])), ["disk-full", "offline-by-full-disk"]),
        (
            with_disk(0.99, partition(0, -1, [1, 4], [1, 4]), partition(1, -1, [4])),
            ["broker-gone", "disk-full", "offline-by-full-disk", "offline-partitions"],
        ),
        (
            pictured([partition(0, -1, [1, 2, 3], [2, 3])], controller=None),
            ["no-controller", "unelected-partitions", "under-replicated"],
        ),
        (
            failing(pictured([partition(0, -1, [1, 2, 3], [2, 3])]), Part.MOVES, "it is none"),
            ["controller-silent", "unelected-partitions", "under-replicated"],
        ),
        (pictured([partition(0, -1, [1, 2, 3], [])]), ["undecided-partitions", "under-replicated"]),
        (pictured(brokers=[broker(1), broker(2, silence="no answer")]), ["broker-silent"]),
        (pictured(brokers=[broker(1, DirectoryState("/a", "gone")), broker(2)]), ["directory-offline"]),
        (with_disk(0.97), ["disk-full"]),
        (with_disk(0.90), ["disk-filling"]),
        (with_certificate(31), []),
        (with_certificate(29), ["certificate-ending"]),
        (with_certificate(6.9), ["certificate-urgent"]),
        (with_certificate(-1), ["certificate-urgent"]),
        (with_disk(0.50), []),
        (pictured([partition(each, 2, [1, 2]) for each in range(4)]), ["leaders-unbalanced"]),
        (pictured(brokers=[broker(1), broker(2, levels=(1, 2))]), ["versions-differ"]),
        (pictured(brokers=[broker(1, levels=(1, 2)), broker(2, levels=(1, 2))]), ["level-can-rise"]),
        (failing(WELL, Part.CONFIGS, "no"), ["unread"]),
    ],
)
def test_finding_is_told_when_something_is_wrong(seen: ClusterState, expected: list[str]) -> None:
    assert names(seen) == expected


class ComparedPartition(PartitionState):
    """Counts how often it is compared with another one."""

    comparisons = 0
    __hash__ = PartitionState.__hash__

    def __eq__(self, other: object) -> bool:
        ComparedPartition.comparisons += 1
        return super().__eq__(other)


def test_no_partition_is_compared_with_the_others_when_a_full_disk_has_stopped_many() -> None:
    stopped = [ComparedPartition(*partition(number, -1, [1])) for number in range(100)]
    assert names(with_disk(0.99, *stopped)) == ["disk-full", "offline-by-full-disk"]
    assert ComparedPartition.comparisons == 0


def test_move_that_stands_still_is_told_when_nothing_was_copied_between_two_looks() -> None:
    files = stored({ReplicaKey("t", 0, 1): 1_000, ReplicaKey("t", 0, 3): 10})
    first = replace(pictured([MOVING]), files=files)
    assert names(replace(first, at_s=1.0), first) == ["moves-stand-still"]
    assert names(first) == []


def test_cluster_is_healthy_when_there_are_notices_alone() -> None:
    assert is_healthy(find(judge(with_disk(0.90))))
    assert not is_healthy(find(judge(with_disk(0.97))))


def test_how_far_the_farthest_replica_is_behind_is_told_when_it_is_known() -> None:
    seen = pictured([partition(0, 1, [1, 2, 3], [1, 3])], log_ends={(0, 1): 5_000, (0, 2): 1_000})
    (finding,) = find(judge(seen))
    assert finding.what == "1 partition (t-0) lacks in-sync replicas, at most 4,000 records behind"


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.command.startswith("penstock ")], ids=lambda rule: rule.name
)
def test_advice_names_commands_and_options_that_exist(rule: typer.models.OptionInfo) -> None:
    words = shlex.split(rule.command.format("1").partition("#")[0])[1:]  # type: ignore[attr-defined]
    found = command()
    context = typer.Context(found)
    while words and not words[0].startswith("-"):
        found = found.get_command(context, words.pop(0))  # type: ignore[assignment]
        assert found is not None
        if not hasattr(found, "get_command"):
            break
    known = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in words if re.match("-", word)} <= known


_NODES = st.integers(1, 4)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionState:
    replicas = draw(st.lists(_NODES, min_size=1, max_size=4, unique=True))
    isr = [node for node in replicas if draw(st.booleans())]
    leader = draw(st.sampled_from([*isr, -1]))
    return partition(draw(st.integers(0, 99)), leader, replicas, isr)


@given(st.lists(partitions(), max_size=8), st.integers(1, 3))
def test_a_cluster_is_healthy_exactly_when_all_replicas_are_here_and_in_sync(
    some: list[PartitionState], minimum: int
) -> None:
    seen = pictured(some, min_in_sync=minimum)
    is_well = all(each.leader > 0 and set(each.isr) == set(each.replicas) and 4 not in each.replicas for each in some)
    findings = find(judge(seen))
    assert is_healthy(findings) == is_well
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, key=lambda severity: severity is Severity.NOTICE)


def test_disk_is_named_with_what_fills_it_and_no_election_is_advised_when_it_is_full() -> None:
    """The advice was to elect any replica, which loses what the full disk holds."""
    full, stopped = find(judge(with_disk(0.99, partition(0, -1, [1]))))
    assert full.what == (
        "the disk of /data on broker 1 is 99 % full, 1.0 GiB of 100.0 GiB free; "
        "most room there is taken by orders (60.0 GiB), clicks (1.0 GiB)"
    )
    assert "shorten retention" in full.advice
    assert stopped.what == "1 partition (t-0) has no leader, and a disk of broker 1, which has all of it, is full"
    assert "restart the broker" in stopped.advice
    assert "Elect no other replica" in stopped.advice


def test_no_other_replica_is_to_be_elected_when_a_controller_is_all_that_is_missing() -> None:
    (_, finding, _) = find(judge(pictured([partition(0, -1, [1, 2, 3], [2, 3])], controller=None)))
    assert "until there is a controller" in finding.what
    assert "elect any replica" not in finding.advice
    assert "ZooKeeper" in finding.advice


def test_sentence_has_one_end_when_the_reason_of_a_broker_has_its_own() -> None:
    (finding,) = find(judge(failing(WELL, Part.MOVES, "It is not sure of its session with ZooKeeper.")))
    assert finding.what.endswith("session with ZooKeeper")
