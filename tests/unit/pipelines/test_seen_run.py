"""What others are told of a run of a pipeline, and the gate that its batches pass."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from penstock.pipelines import Branch, Pipeline, Settings, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.progress.query_progress import QueryProgress
from penstock.pipelines.runtime.batch_gate import BatchGate
from penstock.pipelines.runtime.batch_writing import BatchWriting, StoppedError
from penstock.pipelines.runtime.graph import graph_of
from penstock.pipelines.runtime.query_plan import plan_queries
from penstock.pipelines.runtime.run_publisher import figures_of
from penstock.pipelines.runtime.runner import Run
from penstock.pipelines.runtime.settings import apply_settings
from penstock.runs.records import PartFigures, State
from tests.unit.pipelines.pieces import Nowhere, count_them, parse

JOBS = Pipeline(
    name="jobs",
    sources=(Topic("a"), Topic("b")),
    steps=(parse,),
    sinks=(
        Nowhere("all"),
        Branch("counts", (Nowhere("counted"),), (count_them,), stateful=True),
        Branch("plain", (Nowhere("kept"),)),
    ),
    dead_letters=Nowhere("dead"),
    combine=count_them,
    settings=Settings(publish_runs=False),
)


def test_sources_steps_and_sinks_are_nodes_when_a_pipeline_is_drawn_elsewhere() -> None:
    graph = graph_of(JOBS, "jobs-1")
    labels = {node.id: node.label for node in graph.nodes}
    assert {(labels[before], labels[then]) for before, then in graph.edges} == {
        (Topic("a").describe(), "count_them"),
        (Topic("b").describe(), "count_them"),
        ("count_them", "parse"),
        ("parse", "nowhere all"),
        ("parse", "counts"),
        ("counts", "count_them"),
        ("count_them", "nowhere counted"),
        ("parse", "plain"),
        ("plain", "nowhere kept"),
        ("parse", "dead-letters"),
        ("dead-letters", "nowhere dead"),
    }
    assert {(node.kind, node.part) for node in graph.nodes} == {
        ("source", ""),
        ("combine", ""),
        ("step", ""),
        ("sink", "main"),
        ("branch", "counts"),
        ("step", "counts"),
        ("sink", "counts"),
        ("branch", "main"),
        ("dead-letters", "main"),
    }


def test_sources_belong_to_their_query_when_a_branch_has_its_own() -> None:
    inner = Branch("inner", (Nowhere("b"),), (parse,))
    graph = graph_of(Pipeline("p", (), (Branch("alone", (inner,), sources=(Topic("u"),)),)), "p-1")
    labels = {node.id: node.label for node in graph.nodes}
    assert [(labels[before], labels[then]) for before, then in graph.edges] == [
        (Topic("u").describe(), "alone"),
        ("alone", "inner"),
        ("inner", "parse"),
        ("parse", "nowhere b"),
    ]
    assert {node.part for node in graph.nodes} == {"alone"}


def test_figures_are_those_of_the_queries() -> None:
    query = QueryProgress("jobs/main", 3, 100, 12.0, 800, 7, "noon", {"all": 90, "dead": 10})
    assert figures_of([query]) == (PartFigures("main", 3, 800, 100, 100, 7, "noon", {"all": 90, "dead": 10}),)


def test_it_is_told_once_that_nothing_is_under_way_when_the_gate_closes() -> None:
    told: list[str] = []
    gate = BatchGate(lambda: told.append("at rest"))
    gate.close()
    gate.close()
    assert told == ["at rest"]
    assert not gate.try_enter()
    gate.open()
    assert gate.try_enter()
    assert gate.try_enter()
    gate.close()
    gate.leave()
    assert told == ["at rest"]
    gate.leave()
    assert told == ["at rest"] * 2


class Untouchable:
    """Rows of a batch that must not begin; a batch that begins asks for their session."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    @property
    def sparkSession(self) -> Any:
        self.begun.set()
        raise LookupError("the batch has begun")


def writing_with(gate: BatchGate, query: object) -> BatchWriting:
    plan = plan_queries(JOBS)[0]
    return BatchWriting("jobs", plan, keeps_dead_letters=False, gate=gate, query=cast("Any", query))


class Asked:
    """A query that runs, and knows that it was asked: by a batch that is held."""

    def __init__(self) -> None:
        self.by_a_held_batch = threading.Event()

    @property
    def isActive(self) -> bool:
        self.by_a_held_batch.set()
        return True


class StoppedWhenHeld:
    """A query that Spark stops when it is asked for the third time."""

    asked = 0

    @property
    def isActive(self) -> bool:
        self.asked += 1
        return self.asked < 3


def test_batch_begins_when_a_paused_run_is_resumed() -> None:
    gate, rows, query = BatchGate(), Untouchable(), Asked()
    gate.close()
    writing = writing_with(gate, query)
    failures: list[Exception] = []

    def write() -> None:
        try:
            writing(cast("Any", rows), 0)
        except LookupError as error:
            failures.append(error)

    batch = threading.Thread(target=write, daemon=True)
    batch.start()
    assert query.by_a_held_batch.wait(30)
    assert writing.is_held
    assert not rows.begun.is_set()
    gate.open()
    assert rows.begun.wait(30)
    batch.join(30)
    assert len(failures) == 1
    gate.close()  # the failed batch has left: the gate is at rest
    assert not gate.try_enter()


def test_batch_never_begins_when_its_query_is_stopped_while_the_run_is_paused() -> None:
    gate, rows = BatchGate(), Untouchable()
    gate.close()
    with pytest.raises(StoppedError):
        writing_with(gate, StoppedWhenHeld())(cast("Any", rows), 0)
    assert not rows.begun.is_set()


def test_run_says_why_when_it_cannot_do_what_it_is_asked() -> None:
    run = Run(cast("Any", None), JOBS)
    with pytest.raises(PipelineError, match=rf"the run {run.id} cannot restart: it is starting"):
        run.restart()
    states = [run.state]
    for ask in (run.pause, run.resume):
        ask()
        states.append(run.state)
    assert states == [State.STARTING, State.PAUSED, State.RUNNING]


@pytest.mark.parametrize(("text", "expected"), [("false", False), ("True", True)])
def test_publishing_is_switched_when_it_is_set(text: str, expected: bool) -> None:
    assert apply_settings(Settings(), {"publish_runs": text}).publish_runs is expected
    with pytest.raises(PipelineError, match="publish_runs is true or false, not 'perhaps'"):
        apply_settings(Settings(), {"publish_runs": "perhaps"})
