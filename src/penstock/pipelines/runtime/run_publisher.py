"""Publishes a run of a pipeline to other programs: its identity, its graph and its progress."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version

from penstock.core.clock import Clock
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.progress.query_progress import QueryProgress
from penstock.pipelines.runtime.graph import graph_of
from penstock.runs.link import KafkaLink
from penstock.runs.publisher import Identity, RunPublisher
from penstock.runs.records import PartFigures
from penstock.runs.status import RunStatus
from penstock.runs.topics import RunTopics

logger = logging.getLogger(__name__)

PIPELINE = "pipeline"


def figures_of(queries: Iterable[QueryProgress]) -> tuple[PartFigures, ...]:
    return tuple(
        PartFigures(
            part=query.query.rpartition("/")[2],
            batch=query.batch_id,
            batch_ms=query.batch_ms,
            rows_in=query.rows,
            rows_out=sum(query.written.values()),
            lag=query.lag,
            watermark=query.watermark,
            written=query.written,
        )
        for query in queries
    )


def open_publisher(
    pipeline: Pipeline, run: str, status: RunStatus, progress: Callable[[], list[QueryProgress]], clock: Clock
) -> RunPublisher | None:
    """A publisher at work. None if the settings forbid it, or if the brokers' settings are wrong."""
    from penstock.pipelines.kafka.client_settings import to_librdkafka
    from penstock.pipelines.options import OptionError

    settings = pipeline.settings
    if not settings.publish_runs:
        return None
    try:
        client_settings = to_librdkafka({**settings.kafka, "bootstrap.servers": settings.bootstrap_servers})
    except (OptionError, PipelineError) as error:
        logger.warning("the run %s cannot be seen by others, and goes on: %s", run, error)
        return None
    identity = Identity(run, PIPELINE, pipeline.name, socket.gethostname(), os.getpid(), _version(), clock.now_ms())
    link = KafkaLink(client_settings, RunTopics(settings.runs_topic, settings.commands_topic))
    publisher = RunPublisher(identity, status, lambda: figures_of(progress()), graph_of(pipeline, run), link)
    publisher.start()
    return publisher


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return ""
