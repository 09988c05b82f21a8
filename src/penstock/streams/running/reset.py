"""Starts an application over: its checkpoint, its consumer groups and its internal topics are deleted."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.pipelines.running.reset import forget_progress
from penstock.streams.running.application import Application, pipeline_for
from penstock.streams.running.topics import delete_topics, internal_topics, open_admin


def forget_application(app: Application) -> Iterator[str]:
    """Says what was done. The topics that the application's author named stay."""
    yield from forget_progress(pipeline_for(app))
    settings = app.settings
    admin = open_admin({**settings.kafka, "bootstrap.servers": settings.bootstrap_servers})
    yield from delete_topics(admin, internal_topics(app.plan()))
