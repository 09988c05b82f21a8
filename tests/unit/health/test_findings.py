"""The table of what can be wrong with a cluster."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.app import command
from penstock.health.condition import judge
from penstock.health.findings import RULES, Severity, find, is_healthy
from penstock.health.observed import DirectorySeen, Observed, PartitionSeen, ReplicaKey
from tests.unit.health.seen import GIB, broker, observed, partition

WELL = observed([partition(0, 1, [1, 2, 3]), partition(1, 2, [2, 3, 1]), partition(2, 3, [3, 1, 2])])
MOVING = partition(0, 1, [1, 2, 3], [1, 2])._replace(adding=(3,))


def names(seen: Observed, before: Observed | None = None) -> list[str]:
    return [finding.name for finding in find(judge(seen, before))]


def with_disk(used: float) -> Observed:
    disk = DirectorySeen("/data", "", 100 * GIB, int((1 - used) * 100 * GIB))
    return observed(brokers=[broker(1, disk), broker(2), broker(3)])


def with_certificate(days: float) -> Observed:
    return observed(brokers=[broker(1)._replace(certificate_left_s=days * 86_400), broker(2), broker(3)])


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (WELL, []),
        (observed(controller=None), ["no-controller"]),
        (replace(WELL, controller_silence="it is none"), ["controller-silent"]),
        (observed([partition(0, 1, [1, 2, 4], [1, 2])]), ["broker-gone", "under-replicated"]),
        (observed([partition(0, 1, [1, 2, 3], [1])]), ["below-minimum", "under-replicated"]),
        (observed([partition(0, -1, [1, 2, 3], [3])]), ["offline-partitions", "under-replicated"]),
        (observed([partition(0, -1, [1, 2, 3], [])]), ["undecided-partitions", "under-replicated"]),
        (observed(brokers=[broker(1), broker(2, silence="no answer")]), ["broker-silent"]),
        (observed(brokers=[broker(1, DirectorySeen("/a", "gone")), broker(2)]), ["directory-offline"]),
        (with_disk(0.97), ["disk-full"]),
        (with_disk(0.90), ["disk-filling"]),
        (with_certificate(31), []),
        (with_certificate(29), ["certificate-ending"]),
        (with_certificate(6.9), ["certificate-urgent"]),
        (with_certificate(-1), ["certificate-urgent"]),
        (with_disk(0.50), []),
        (observed([partition(each, 2, [1, 2]) for each in range(4)]), ["leaders-unbalanced"]),
        (observed(brokers=[broker(1), broker(2, levels=(1, 2))]), ["versions-differ"]),
        (observed(brokers=[broker(1, levels=(1, 2)), broker(2, levels=(1, 2))]), ["level-can-rise"]),
        (replace(WELL, unread=("moves: no",)), ["unread"]),
    ],
)
def test_finding_is_told_when_something_is_wrong(seen: Observed, expected: list[str]) -> None:
    assert names(seen) == expected


def test_move_that_stands_still_is_told_when_nothing_was_copied_between_two_looks() -> None:
    sizes = {ReplicaKey("t", 0, 1): 1_000, ReplicaKey("t", 0, 3): 10}
    first = replace(observed([MOVING]), sizes=sizes)
    assert names(replace(first, at_s=1.0), first) == ["moves-stand-still"]
    assert names(first) == []


def test_cluster_is_healthy_when_there_are_notices_alone() -> None:
    assert is_healthy(find(judge(with_disk(0.90))))
    assert not is_healthy(find(judge(with_disk(0.97))))


def test_how_far_the_farthest_replica_is_behind_is_told_when_it_is_known() -> None:
    seen = observed([partition(0, 1, [1, 2, 3], [1, 3])], log_ends={(0, 1): 5_000, (0, 2): 1_000})
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
def partitions(draw: st.DrawFn) -> PartitionSeen:
    replicas = draw(st.lists(_NODES, min_size=1, max_size=4, unique=True))
    isr = [node for node in replicas if draw(st.booleans())]
    leader = draw(st.sampled_from([*isr, -1]))
    return partition(draw(st.integers(0, 99)), leader, replicas, isr)


@given(st.lists(partitions(), max_size=8), st.integers(1, 3))
def test_a_cluster_is_healthy_exactly_when_all_replicas_are_here_and_in_sync(
    some: list[PartitionSeen], minimum: int
) -> None:
    seen = observed(some, min_in_sync=minimum)
    is_well = all(each.leader > 0 and set(each.isr) == set(each.replicas) and 4 not in each.replicas for each in some)
    findings = find(judge(seen))
    assert is_healthy(findings) == is_well
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, key=lambda severity: severity is Severity.NOTICE)
