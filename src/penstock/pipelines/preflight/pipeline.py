"""A pipeline before Spark starts: its plan, its master, its checkpoint, its topics, and what its parts know."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from penstock.pipelines.errors import PipelineError, RefusedLoginError
from penstock.pipelines.intervals import is_no_interval
from penstock.pipelines.options import OptionError, OptionScope
from penstock.pipelines.pipeline import Branch, Checked, Pipeline, Settings, Source, Step, is_real_time
from penstock.pipelines.preflight.master import check_master
from penstock.pipelines.preflight.places import certain_path, check_directory
from penstock.pipelines.preflight.topics import READ, WRITE, Need, check_needs
from penstock.pipelines.runtime.query_plan import branches_of, plan_queries, sinks_of, step_name
from penstock.pipelines.runtime.real_time import check_real_time, interval_of
from penstock.pipelines.runtime.runner import AVAILABLE_NOW, checkpoint_of
from penstock.pipelines.runtime.spark.session import find_java, session_settings
from penstock.pipelines.sinks.topic import TopicSink
from penstock.pipelines.source.read_options import parse_source_options
from penstock.pipelines.topic_source import Topic

_SERVERS = "kafka.bootstrap.servers"


def check_pipeline(
    pipeline: Pipeline,
    master: str | None = None,
    *,
    once: bool = False,
    topics: Iterable[Topic] = (),
    made: Collection[str] = (),
) -> None:
    """Reads from brokers and registries, and changes nothing. PipelineError for what is certain to fail. `topics` are
    those that sources read without naming them; the run makes those in `made` where they are missing."""
    plans = plan_queries(pipeline)
    check_real_time(pipeline, plans, once)
    _check_trigger(pipeline.settings, once)
    settings = session_settings(pipeline, master)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        find_java()
        check_master(settings.get("spark.master", ""))
    checkpoint = certain_path(checkpoint_of(pipeline), settings)
    if checkpoint is not None:
        check_directory(checkpoint_of(pipeline), "the checkpoint")
    is_new = checkpoint is not None and not any(_has_begun(checkpoint / plan.name) for plan in plans)
    own = [sink.topic for sink in sinks_of(pipeline) if isinstance(sink, TopicSink) and sink.create is not None]
    check_needs(_needs(pipeline, topics, is_new), {*made, *own})
    for step, within in _steps(pipeline):
        if isinstance(step, Checked):
            try:
                step.check(within)
            except RefusedLoginError:  # its class is the exit code of a command
                raise
            except PipelineError as error:
                raise PipelineError(
                    f"the step {step_name(step)} cannot be used: {error.message}", error.hint
                ) from error


def _check_trigger(settings: Settings, once: bool) -> None:
    interval = interval_of(settings) if is_real_time(settings) else settings.trigger
    if not once and settings.trigger != AVAILABLE_NOW and is_no_interval(interval):
        hint = f"Write it like 1 second, 10m or 500ms; {AVAILABLE_NOW} stops when all is read."
        raise PipelineError(f"the trigger {settings.trigger!r} is no duration", hint)


def _has_begun(checkpoint: Path) -> bool:
    """Whether the query has planned a batch. The directories may have been made by hand, or by a start that failed."""
    return any((checkpoint / "offsets").glob("[0-9]*"))


def asks_brokers(pipeline: Pipeline) -> bool:
    """Whether a topic is read or written at the brokers of the settings, as far as sources and sinks show."""
    at_home = [source for source in _sources(pipeline) if isinstance(source, Topic) and not _names_brokers(source)]
    return bool(at_home) or any(isinstance(sink, TopicSink) for sink in sinks_of(pipeline))


def _names_brokers(source: Topic) -> bool:
    return any(name.lower() == _SERVERS for name in source.options)


def _sources(pipeline: Pipeline) -> tuple[Source, ...]:
    return (*pipeline.sources, *(source for branch in branches_of(pipeline) for source in branch.sources))


def _needs(pipeline: Pipeline, topics: Iterable[Topic], is_new: bool) -> Iterator[Need]:
    for source in (*_sources(pipeline), *topics):
        if isinstance(source, Topic) and pipeline.settings.engine == "python":
            yield from _read(source, pipeline.settings, is_new)
    for sink in sinks_of(pipeline):
        if isinstance(sink, TopicSink):
            yield from _written(sink, pipeline.settings)


def _read(source: Topic, settings: Settings, is_new: bool) -> Iterator[Need]:
    """A query that goes on from its checkpoint does without a topic that is gone, where losses are allowed."""
    whose = f"the source {source.name} cannot be read"
    try:
        options = parse_source_options(source.reader_options(settings), OptionScope.STREAM_READ)
    except OptionError as error:
        raise PipelineError(f"{whose}: {error}") from error
    asked, client = options.subscription, tuple(sorted(options.fetch.settings.items()))
    may_be_missing = not (options.fetch.fail_on_data_loss or is_new)
    for topic in sorted(asked.topics | {partition.topic for partition in asked.partitions}):
        yield Need(topic, READ, whose, client, may_be_missing=may_be_missing)
    if asked.pattern:
        yield Need("", READ, whose, client, pattern=asked.pattern)


def _written(sink: TopicSink, settings: Settings) -> Iterator[Need]:
    whose = f"the sink {sink.name} cannot be used"
    try:
        client = sink.client_settings(settings)
    except OptionError as error:
        raise PipelineError(f"{whose}: {error}") from error
    hint = "Create it, or say how: TopicSink(..., create=TopicSettings(partitions=3))."
    yield Need(sink.topic, WRITE, whose, tuple(sorted(client.items())), hint)


def _steps(pipeline: Pipeline) -> Iterator[tuple[Step, Pipeline]]:
    """Each with the pipeline as the step sees it: one in a branch with sources sees those."""
    for step in pipeline.steps:
        yield step, pipeline
    for branch in pipeline.sinks:
        if isinstance(branch, Branch):
            yield from _steps_within(branch, pipeline)


def _steps_within(branch: Branch, pipeline: Pipeline) -> Iterator[tuple[Step, Pipeline]]:
    sources: tuple[Source, ...] = branch.sources
    within = replace(pipeline, sources=sources, combine=branch.combine, steps=()) if sources else pipeline
    for step in branch.steps:
        yield step, within
    for inner in branch.sinks:
        if isinstance(inner, Branch):
            yield from _steps_within(inner, within)
