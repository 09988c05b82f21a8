"""Starts an application over: its internal topics, its checkpoint and its consumer groups are deleted."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.pipelines.runtime.reset import forget_progress
from penstock.streams.runtime.application import Application, pipeline_for, sole_driver
from penstock.streams.runtime.topics import delete_topics, internal_topics, open_admin


def forget_application(app: Application) -> Iterator[str]:
    """Yields a line for each step. The topics that the application's author named stay. StreamsError while a driver
    runs.

    The internal topics go first. A checkpoint without its topics stops the next run; topics without their checkpoint
    would be read from their beginning, and old rows counted beside the new ones."""
    settings = app.settings
    admin = open_admin({**settings.kafka, "bootstrap.servers": settings.bootstrap_servers})
    with sole_driver(app):
        yield from delete_topics(admin, internal_topics(app.plan()))
        yield from forget_progress(pipeline_for(app))
