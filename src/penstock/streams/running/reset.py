"""Starts an application over: its internal topics, its checkpoint and its consumer groups are deleted."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.pipelines.running.reset import forget_progress
from penstock.streams.running.application import Application, pipeline_for
from penstock.streams.running.topics import delete_topics, internal_topics, open_admin


def forget_application(app: Application) -> Iterator[str]:
    """Says what was done. The topics that the application's author named stay.

    The internal topics go first. A checkpoint without its topics stops the next run; topics without their checkpoint
    would be read from their beginning, and old rows counted beside the new ones."""
    settings = app.settings
    admin = open_admin({**settings.kafka, "bootstrap.servers": settings.bootstrap_servers})
    yield from delete_topics(admin, internal_topics(app.plan()))
    yield from forget_progress(pipeline_for(app))
