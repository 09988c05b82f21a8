"""An application before Spark starts: its expressions, its topics, and whether its checkpoint is from this topology."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from penstock.pipelines.errors import SqlError
from penstock.pipelines.payloads.formats import resolve_format
from penstock.pipelines.pipeline import Settings
from penstock.pipelines.preflight.pipeline import check_pipeline
from penstock.pipelines.preflight.places import certain_path
from penstock.pipelines.runtime.runner import checkpoint_of
from penstock.pipelines.runtime.spark.session import session_settings
from penstock.pipelines.sql.preflight.certainty import refuse_open
from penstock.pipelines.steps.registries import address_of, refusals_told
from penstock.streams.planner.plan import Plan
from penstock.streams.runtime.application import Application, pipeline_for
from penstock.streams.runtime.checkpoints import LocalFiles
from penstock.streams.runtime.identity import has_identity, refuse_other
from penstock.streams.runtime.pipelines import topic_of
from penstock.streams.runtime.topics import open_admin, partition_counts, plan_topics, refuse_leftovers, table_topics
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import FormatKind
from penstock.streams.topology.nodes import Node, Source

# As the fields of nodes are annotated: names with their expressions.
_NAMED = "tuple[str, Expression]"


def check_application(app: Application, master: str | None = None, *, once: bool = False) -> None:
    """Reads from brokers and registries, and changes nothing. PipelineError for what is certain to fail."""
    plan, pipeline = app.plan(), pipeline_for(app)
    for node in plan.topology.nodes:
        _check_expressions(node)
    sources = [node.name for node in plan.topology.nodes if isinstance(node, Source)]
    cuts = dict.fromkeys(name for query in plan.queries for name in query.cuts)
    topics = [topic_of(plan, name, pipeline.settings) for name in (*sources, *cuts)]
    made = {topic.name for topic in plan_topics(plan, {})}
    check_pipeline(pipeline, master, once=once, topics=topics, made=made)
    for node in plan.topology.nodes:
        if isinstance(node, Source) and node.topic not in made:  # what a pattern finds is there, or will be
            _check_schemas(node, pipeline.settings)
    checkpoint = certain_path(checkpoint_of(pipeline), session_settings(pipeline, master))
    if checkpoint is not None:
        _check_checkpoint(LocalFiles(checkpoint), plan, app)


def _check_schemas(node: Source, settings: Settings) -> None:
    for of, given in (("key", node.key), ("value", node.value)):
        if given.kind is FormatKind.REGISTRY:
            with refusals_told():
                resolve_format(address_of(None, settings), given.subject or f"{node.only_topic}-{of}")


def _check_checkpoint(files: LocalFiles, plan: Plan, app: Application) -> None:
    admin = open_admin({**app.settings.kafka, "bootstrap.servers": app.settings.bootstrap_servers})
    if not has_identity(files):
        refuse_leftovers(admin, plan)
        return
    tables, counts = table_topics(plan), partition_counts(admin)
    refuse_other(files, plan, {name: count for name, count in counts.items() if name in tables})


def _check_expressions(node: Node) -> None:
    """The expressions that are SQL: columns of PySpark were made by Spark, and need no check."""
    for field in fields(node):
        given = getattr(node, field.name) if "Expression" in str(field.type) else None
        for text in _texts(given, is_named=_NAMED in str(field.type)):
            try:
                refuse_open(text)
            except SqlError as error:
                kind = type(node).__name__
                raise StreamsError(f"{kind} {node.name}: {error.message}: {text}", error.hint) from error


def _texts(given: Any, *, is_named: bool) -> list[str]:
    if isinstance(given, str):
        return [given]
    if not isinstance(given, tuple):
        return []
    if is_named and len(given) == 2 and isinstance(given[0], str):
        return _texts(given[1], is_named=False)
    return [text for each in given for text in _texts(each, is_named=is_named)]
