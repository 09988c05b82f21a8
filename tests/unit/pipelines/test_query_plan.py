from __future__ import annotations

import functools
from typing import Any

import pytest

from penstock.pipelines import Branch, Pipeline, Settings, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.diagram import draw
from penstock.pipelines.runtime.query_plan import plan_queries, step_name
from penstock.pipelines.sinks.topic import TopicSink
from tests.unit.pipelines.pieces import Nowhere, count_them, parse

ALONE = Branch("alone", (Nowhere("z"),), sources=(Topic("u"),))


def pipeline(**changes: Any) -> Pipeline:
    parts: dict[str, Any] = {"name": "p", "sources": (Topic("t"),), "steps": (parse,), "sinks": (Nowhere("a"),)}
    return Pipeline(**(parts | changes))


def test_sinks_and_branches_without_state_share_a_query_when_planned() -> None:
    planned = plan_queries(
        pipeline(
            sinks=(Nowhere("a"), Branch("b", (Nowhere("c"),), (count_them,))),
            dead_letters=Nowhere("d"),
        )
    )
    (main,) = planned
    assert [(output.sink.name, output.takes_errors) for output in main.outputs] == [
        ("a", False),
        ("c", False),
        ("d", True),
    ]
    assert main.outputs[1].steps == (count_them,)
    assert main.steps == ()


def test_a_stateful_branch_is_a_query_of_its_own_when_planned() -> None:
    branch = Branch("counts", (Nowhere("b"),), (count_them,), stateful=True, mode="update")
    main, counts = plan_queries(pipeline(sinks=(Nowhere("a"), branch)))
    assert (counts.name, counts.steps, counts.mode, counts.is_stateful) == ("counts", (count_them,), "update", True)
    assert [output.sink.name for output in main.outputs] == ["a"]


def test_there_is_no_shared_query_when_every_sink_is_stateful() -> None:
    branch = Branch("counts", (Nowhere("b"),), (count_them,), stateful=True)
    assert [query.name for query in plan_queries(pipeline(sinks=(branch,)))] == ["counts"]


def test_a_branch_with_sources_is_a_query_that_reads_them_alone_when_planned() -> None:
    inner = Branch("inner", (Nowhere("c"),), (parse,))
    alone = Branch("alone", (Nowhere("b"), inner), (count_them,), sources=(Topic("u"), Topic("v")))
    main, own = plan_queries(pipeline(sinks=(Nowhere("a"), alone), dead_letters=Nowhere("d")))
    assert (own.name, own.input.sources, own.input.steps) == ("alone", (Topic("u"), Topic("v")), ())
    assert [(output.sink.name, output.steps, output.branch) for output in own.outputs] == [
        ("b", (count_them,), "alone"),
        ("c", (count_them, parse), "inner"),
    ]
    assert main.input.steps == (parse,)
    assert (main.keeps_dead_letters, own.keeps_dead_letters) == (True, False)


def test_a_pipeline_needs_no_sources_when_every_branch_has_its_own() -> None:
    first = Branch(
        "main", (Branch("x", (Nowhere("a"),), (parse,)),), (count_them,), stateful=True, sources=(Topic("t"),)
    )
    second = Branch("dead-letters", (Nowhere("b"),), sources=(Topic("a"),), after=("main",))
    planned = plan_queries(pipeline(sources=(), steps=(), sinks=(first, second)))
    assert [(query.name, query.steps, query.after) for query in planned] == [
        ("main", (count_them,), ()),
        ("dead-letters", (), ("main",)),
    ]
    assert planned[0].outputs[0].steps == (parse,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sources": ()}, "no sources"),
        ({"sources": (), "sinks": (ALONE,), "dead_letters": Nowhere("d")}, "no sources"),
        ({"sinks": (Branch("b", (ALONE,)),)}, "'alone' is within another one"),
        ({"sinks": (ALONE, Branch("b", (Nowhere("c"),), stateful=True, after=("x",)))}, "'b' comes after 'x', which"),
        ({"sinks": (Branch("b", (Nowhere("c"),), stateful=True, after=("alone",)), ALONE)}, "no query before it"),
        ({"sinks": ()}, "no sinks"),
        ({"sinks": (Nowhere("a"), Nowhere("a"))}, "two of the pipeline's sink names are 'a'"),
        ({"sinks": (Nowhere("a"),), "dead_letters": Nowhere("a")}, "two of the pipeline's sink names are 'a'"),
        ({"sinks": (Branch("main", (Nowhere("a"),)),)}, "branch names are 'main'"),
        ({"sinks": (Branch("b", ()),)}, "has no sinks"),
        ({"sinks": (Branch("b", (Nowhere("a"),), mode="update"),)}, "not stateful"),
        ({"name": "a/b"}, "cannot be a name"),
        ({"name": ""}, "cannot be a name"),
    ],
)
def test_a_pipeline_is_refused_with_a_reason_when_it_cannot_run(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        plan_queries(pipeline(**changes))


class OfYesterday:
    """A sink as it was written before sinks were opened."""

    name = "old"

    def describe(self) -> str:
        return "old"

    def prepare(self, spark: Any, settings: Any) -> None: ...

    def write(self, rows: Any, batch: Any) -> None: ...


def test_what_is_missing_is_named_when_a_sink_is_none() -> None:
    with pytest.raises(PipelineError, match="OfYesterday is not a sink: it lacks session_settings, open"):
        plan_queries(pipeline(sinks=(OfYesterday(),)))


def test_the_promise_that_holds_is_drawn_when_the_engine_is_the_jvm() -> None:
    on_jvm = pipeline(sinks=(TopicSink("t"),), settings=Settings(engine="jvm"))
    assert "-> topic t, at least once" in draw(on_jvm)
    assert "-> topic t, exactly once" in draw(pipeline(sinks=(TopicSink("t"),)))


def test_a_step_is_called_by_its_function_when_named() -> None:
    assert step_name(parse) == "parse"
    assert step_name(functools.partial(parse)) == "parse"


def test_every_step_and_sink_is_in_the_picture_when_drawn() -> None:
    branch = Branch("counts", (Nowhere("b"),), (count_them,), stateful=True, mode="update")
    drawn = draw(pipeline(sinks=(Nowhere("a"), branch), dead_letters=Nowhere("d")))
    assert drawn == "\n".join(
        [
            "p",
            "  topic t, from earliest",
            "    |",
            "  parse",
            "    |",
            "    +-- -> nowhere a",
            "    +-- counts (query counts, update): count_them",
            "    |     -> nowhere b",
            "    +-- dead-letters (query main)",
            "          -> nowhere d",
        ]
    )


def test_a_branch_with_sources_is_drawn_below_the_rest_with_what_it_reads() -> None:
    alone = Branch("alone", (Branch("x", (Nowhere("b"),), (parse,)), Nowhere("c")), sources=(Topic("u"), Topic("v")))
    drawn = draw(pipeline(sinks=(Nowhere("a"), alone)))
    assert drawn.splitlines()[4:] == [
        "    |",
        "    +-- -> nowhere a",
        "  topic u, from earliest",
        "  topic v, from earliest",
        "    |",
        "    +-- alone (query alone)",
        "          x: parse",
        "            -> nowhere b",
        "          -> nowhere c",
    ]
