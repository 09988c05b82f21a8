"""A plan as a pipeline: each planned query is a branch that reads its own topics and writes its outputs' topics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.pipelines.pipeline import Branch, Pipeline, Settings, is_real_time
from penstock.pipelines.sinks.topic import TopicSink
from penstock.pipelines.topic_source import Topic
from penstock.streams.lowering.context import Context, Read
from penstock.streams.lowering.encoding import CHOSEN_TOPIC
from penstock.streams.lowering.queries import dead_letter_rows, output_records, root_rows
from penstock.streams.planner.plan import Output, Plan, PlannedQuery, chooses_topic
from penstock.streams.runtime.real_time import check_plan, for_reading
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import Source
from penstock.streams.topology.shapes import found_by_patterns
from penstock.streams.topology.topic_choice import TopicChoice, reads, topics_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEAD_LETTERS = "dead-letters"
_ISOLATION = "kafka.isolation.level"
_FAIL_ON_DATA_LOSS = "failOnDataLoss"


def pipeline_of(plan: Plan, settings: Settings) -> Pipeline:
    """Reads nothing and sends no request; StreamsError for settings that an application cannot have."""
    topology, in_real_time = plan.topology, is_real_time(settings)
    _check_patterns(plan, settings)
    if in_real_time:
        check_plan(plan, settings)
    elif settings.engine != "python":
        raise StreamsError(
            "Spark's own connector writes at least once, and no times of its own",
            "Leave the setting engine as it is, unless it is to run in real time: trigger=realtime.",
        )
    settings = replace(settings, group_id=settings.group_id or topology.application, watermark=None)
    lowered = Lowered(plan, for_reading(settings) if in_real_time else settings)
    branches = [_branch_of(lowered, query) for query in plan.queries]
    if topology.dead_letters is not None:
        branches.append(_dead_letters(lowered, topology.dead_letters))
    branches = [replace(branch, is_real_time=in_real_time) for branch in branches]
    return Pipeline(topology.application, (), _in_order(plan, branches), settings=settings)


def _check_patterns(plan: Plan, settings: Settings) -> None:
    """A run that reads what it publishes about itself would never have read all."""
    published = (settings.runs_topic, settings.commands_topic) if settings.publish_runs else ()
    for source, topic in found_by_patterns(plan.topology.nodes, published):
        raise StreamsError(
            f"{source.name} reads {topics_text(source.topic)}, and would read {topic}, where runs publish their state",
            "Write a pattern that leaves it out, as (?!_).* does, or set publish_runs to false.",
        )


@dataclass(frozen=True, slots=True)
class Lowered:
    """The plan with what was found out in a run: one for all queries of a pipeline."""

    plan: Plan
    settings: Settings
    known: dict[tuple[str, ...], Any] = field(default_factory=dict, compare=False, repr=False)

    def context(self, spark: SparkSession) -> Context:
        return Context(spark, self.plan, self.settings, is_streaming=True, known=self.known)


@dataclass(frozen=True, slots=True)
class QuerySource:
    """The rows of a query's root: its topics, and all of its nodes that have state."""

    lowered: Lowered
    query: PlannedQuery

    @property
    def name(self) -> str:
        return self.query.name

    def describe(self) -> str:
        return _described(topics_read(self.lowered.plan, self.query))

    def read(self, spark: SparkSession, settings: Settings) -> DataFrame:
        return root_rows(self.lowered.context(spark), self.query, _reader(self.lowered, spark))


@dataclass(frozen=True, slots=True)
class DeadLetterSource:
    """The records of all sources that do not decode."""

    lowered: Lowered

    @property
    def name(self) -> str:
        return DEAD_LETTERS

    def describe(self) -> str:
        return _described(source_topics(self.lowered.plan))

    def read(self, spark: SparkSession, settings: Settings) -> DataFrame:
        return dead_letter_rows(self.lowered.context(spark), _reader(self.lowered, spark))


def source_topics(plan: Plan) -> tuple[TopicChoice, ...]:
    """The topics of streams and tables; tasks read global tables, which have no query."""
    topics = [node.topic for node in plan.topology.nodes if isinstance(node, Source) and not node.is_global]
    return tuple(dict.fromkeys(topics))


def topics_read(plan: Plan, query: PlannedQuery) -> tuple[TopicChoice, ...]:
    sources: list[TopicChoice] = [_source(plan, name).topic for name in query.sources]
    return tuple(dict.fromkeys([*sources, *(plan.cuts[name].topic for name in query.cuts)]))


def topics_by_query(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The topics of all running queries, that of the dead letters too. The plan has no patterns: none runs in real
    time.
    """
    read = {query.name: topics_read(plan, query) for query in plan.queries}
    if plan.topology.dead_letters is not None:
        read[DEAD_LETTERS] = source_topics(plan)
    return {name: tuple(map(topics_text, topics)) for name, topics in read.items()}


def topic_of(plan: Plan, name: str, settings: Settings) -> Topic:
    """The topic that a query reads for a source or a cut. Uncommitted records are left out, unless the application's
    settings want them from topics that are not its own."""
    if name in plan.cuts:
        return Topic(plan.cuts[name].topic, options={_ISOLATION: "read_committed"})
    node = _source(plan, name)
    isolation = settings.kafka.get("isolation.level", "read_committed")
    options = {_ISOLATION: isolation}
    if not node.fail_on_data_loss:
        options[_FAIL_ON_DATA_LOSS] = "false"
    return Topic(node.topic, node.start, headers=node.with_headers, options=options)


def _reader(lowered: Lowered, spark: SparkSession) -> Read:
    def read(name: str) -> DataFrame:
        return topic_of(lowered.plan, name, lowered.settings).read(spark, lowered.settings)

    return read


def _source(plan: Plan, name: str) -> Source:
    node = plan.topology.node(name)
    assert isinstance(node, Source), f"{name} is no source"
    return node


def _branch_of(lowered: Lowered, query: PlannedQuery) -> Branch:
    return Branch(
        query.name,
        tuple(_end_of(lowered, query, output) for output in query.outputs),
        stateful=query.is_stateful,
        goes_by_clock=query.goes_by_clock,
        mode=query.mode if query.is_stateful else "append",
        sources=(QuerySource(lowered, query),),
    )


def _end_of(lowered: Lowered, query: PlannedQuery, output: Output) -> Branch:
    """The sink has the name of its node, by which a repeated batch is recognised."""
    name = output.sink or output.topic
    made = partial(_records, lowered=lowered, query=query, output=output)
    chosen = CHOSEN_TOPIC if chooses_topic(lowered.plan, output) else None
    sink = TopicSink(output.topic, name=name, timestamp="timestamp", topic_of=chosen)
    return Branch(f"{query.name}.{name}", (sink,), (made,))


def _records(rows: DataFrame, *, lowered: Lowered, query: PlannedQuery, output: Output) -> DataFrame:
    return output_records(lowered.context(rows.sparkSession), query, output, rows)


def _dead_letters(lowered: Lowered, topic: str) -> Branch:
    return Branch(DEAD_LETTERS, (TopicSink(topic, name=DEAD_LETTERS),), sources=(DeadLetterSource(lowered),))


def _in_order(plan: Plan, branches: list[Branch]) -> tuple[Branch, ...]:
    """Those that write a topic before those that read it, which say so. There are no circles: drafts refuse them."""
    written: dict[str, list[str]] = {}
    for query in plan.queries:
        for output in query.outputs:
            written.setdefault(output.topic, []).append(query.name)
    waiting = {branch.name: replace(branch, after=_after(plan, branch, written)) for branch in branches}
    ordered: dict[str, Branch] = {}
    while waiting:
        ready = [branch for branch in waiting.values() if all(name in ordered for name in branch.after)]
        assert ready, f"queries wait for each other: {', '.join(waiting)}"
        for branch in ready:
            ordered[branch.name] = waiting.pop(branch.name)
    return tuple(ordered.values())


def _after(plan: Plan, branch: Branch, written: dict[str, list[str]]) -> tuple[str, ...]:
    topics = source_topics(plan) if branch.name == DEAD_LETTERS else topics_read(plan, plan.query(branch.name))
    read = [topic for topic in written if any(reads(each, topic) for each in topics)]
    return tuple(dict.fromkeys(name for topic in read for name in written[topic] if name != branch.name))


def _described(topics: tuple[TopicChoice, ...]) -> str:
    names = [topics_text(each) for each in topics]
    if len(names) == 1:
        return f"topic {names[0]}" if isinstance(topics[0], str) else names[0]
    return f"topics {', '.join(names)}"
