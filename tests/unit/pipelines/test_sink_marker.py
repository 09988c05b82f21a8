from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.pipelines.topic_writing.errors import RefusedError, WriteError
from penstock.pipelines.topic_writing.marker import (
    Begun,
    Marker,
    MarkerDecision,
    TaskOfBatch,
    all_groups_of_sink,
    check_task_count,
    decide,
    groups_of_sink,
    newest,
)

WORK = TaskOfBatch("q", "out", batch_id=7, task=1, tasks=4)


@pytest.mark.parametrize(
    ("marker", "decision"),
    [
        (None, MarkerDecision.WRITE),
        (Marker(0, 4), MarkerDecision.WRITE),
        (Marker(7, 4), MarkerDecision.WRITE),
        (Marker(7, 2), MarkerDecision.WRITE),
        (Marker(8, 4), MarkerDecision.SKIP),
        (Marker(8, None), MarkerDecision.SKIP),
        (Marker(7, cut=4), MarkerDecision.WRITE),
        (Marker(6, cut=2), MarkerDecision.WRITE),
        (Marker(8, cut=2), MarkerDecision.SKIP),  # what is claimed is the next batch, so this one is there
    ],
)
def test_rows_are_written_when_no_marker_says_that_they_are_there(
    marker: Marker | None, decision: MarkerDecision
) -> None:
    assert decide(marker, WORK) is decision


def test_a_repeated_task_is_refused_when_the_batch_was_cut_differently_before() -> None:
    with pytest.raises(
        WriteError, match="written in part by 2 tasks and comes again with 4; only 2 tasks can finish it"
    ):
        decide(Marker(8, 2), WORK)


def test_a_task_is_refused_when_another_cut_of_its_batch_is_claimed() -> None:
    with pytest.raises(RefusedError, match="is cut into 2 tasks now; those of the cut before, into 4, may no longer"):
        decide(Marker(7, cut=2), WORK)


@pytest.mark.parametrize(
    ("claim", "by_task", "tasks", "shut_out"),
    [
        # Nothing says that tasks have begun the batch: at most the driver has.
        (None, {}, 1, []),
        (None, {}, 3, [0]),
        (Marker(6, cut=3), {0: Marker(7, 3), 1: None}, 1, []),
        (Marker(6, cut=3), {0: Marker(7, 3), 1: None}, 2, [0]),
        # Tasks have begun it.
        (Marker(7, cut=3), {}, 3, []),
        (Marker(7, cut=3), {}, 2, [0, 1, 2]),
        (Marker(7, cut=3), {}, 1, [0, 1, 2]),
        # A driver in between died while it shut them out, or after that.
        (Marker(7, cut=3), {0: Marker(7, cut=2)}, 3, [0]),
        (Marker(7, cut=3), {0: Marker(7, cut=2)}, 2, [0, 1, 2]),
        (Marker(7, cut=2), {task: Marker(7, cut=2) for task in range(3)}, 3, [0, 1, 2]),
        (Marker(6, cut=3), {0: Marker(7, cut=3)}, 1, [0]),
        # Claims on other batches say nothing.
        (Marker(7, cut=3), {0: Marker(6, cut=2), 1: Marker(7, 2)}, 3, []),
    ],
)
def test_tasks_of_another_cut_are_shut_out_when_they_may_be_alive(
    claim: Marker | None, by_task: Mapping[int, Marker | None], tasks: int, shut_out: list[int]
) -> None:
    assert Begun(7, claim, by_task).tasks_to_shut_out(tasks) == shut_out


@pytest.mark.parametrize(
    ("claim", "by_task", "is_needed"),
    [
        (None, {}, False),
        (None, {0: Marker(7, 1)}, False),
        (None, {0: Marker(3, 2), 1: None}, True),  # a version without claims may have begun the batch so
        (Marker(3, cut=2), {0: Marker(7, 1), 1: Marker(4, 2)}, False),
        (Marker(7, cut=2), {}, True),
        (Marker(7, cut=1), {0: Marker(7, cut=1)}, False),
        (Marker(3, cut=2), {0: Marker(8, 2)}, True),
    ],
)
def test_tasks_finish_a_batch_when_tasks_have_begun_it(
    claim: Marker | None, by_task: Mapping[int, Marker | None], is_needed: bool
) -> None:
    assert Begun(7, claim, by_task).needs_tasks is is_needed


def test_a_task_is_refused_when_the_topic_is_ahead_of_the_checkpoint() -> None:
    with pytest.raises(WriteError, match="batches up to 8 already, so the checkpoint is older"):
        decide(Marker(9, 4), WORK)


def test_a_batch_is_refused_when_another_task_wrote_it_among_fewer_and_others_do_not_matter() -> None:
    check_task_count([Marker(3, 9), Marker(7, 2), Marker(8, 4), Marker(8, None)], "out", 7, 4)
    check_task_count([Marker(8, 2)], "out", 7, None)
    with pytest.raises(WriteError, match=r"batch 7 of sink out .* by 2 tasks"):
        check_task_count([Marker(3, 9), Marker(8, 2)], "out", 7, 4)


def test_marker_survives_when_written_as_an_offset_and_read_again() -> None:
    for marker in (WORK.marker, Marker(3), Marker(0, 1), Marker(5, cut=2)):
        assert Marker.from_offset(marker.next_batch, marker.to_metadata()) == marker
    assert Marker.from_offset(5, "tasks=2V\x7f") == Marker(5, 2), "what was written without an end may be read so"
    assert Marker.from_offset(5, None) == Marker.from_offset(5, "somebody else's") == Marker(5)


def test_names_tell_query_sink_and_task_apart_when_they_are_built() -> None:
    assert WORK.transactional_id == "q-out-1"
    assert WORK.group == "__eos-q-out-1"
    assert WORK.marker == Marker(8, 4)


def test_only_the_groups_of_one_sink_are_found_when_names_begin_alike() -> None:
    groups = [
        "__eos-q-out-0",
        "__eos-q-out-12",
        "__eos-q-out-driver",
        "__eos-q-out-1-0",
        "__eos-q-outer-0",
        "__eos-p-out-0",
        "q-out-0",
    ]
    assert groups_of_sink(groups, "q", "out") == {0: "__eos-q-out-0", 12: "__eos-q-out-12"}
    assert groups_of_sink(groups, "q", "out-1") == {0: "__eos-q-out-1-0"}
    assert all_groups_of_sink(groups, "q", "out") == ["__eos-q-out-0", "__eos-q-out-12", "__eos-q-out-driver"]
    assert all_groups_of_sink(groups, "q", "out-1") == ["__eos-q-out-1-0"]


def test_the_newest_marker_counts_when_a_task_left_them_beside_several_topics() -> None:
    assert newest({"a": Marker(3), "b": Marker(8, 4)}) == Marker(8, 4)
    assert newest({}) is None
