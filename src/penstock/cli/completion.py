"""Names for the shell to complete, asked of the cluster. Silent and quick: a shell rather shows nothing."""

from __future__ import annotations

import os
from typing import Any

import typer

from penstock.core.words.visible_text import one_line

_PATIENCE_SECONDS = 1.0


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    return _complete(context, incomplete, lambda admin: admin.list_topics(timeout=_PATIENCE_SECONDS).topics)


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    def names(admin: Any) -> list[str]:
        listing = admin.list_consumer_groups(request_timeout=_PATIENCE_SECONDS).result(_PATIENCE_SECONDS)
        return [group.group_id for group in listing.valid]

    return _complete(context, incomplete, names)


def _complete(context: typer.Context, incomplete: str, names: Any) -> list[str]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    servers = context.params.get("bootstrap_server") or os.environ.get("PENSTOCK_BOOTSTRAP") or "127.0.0.1:9092"
    try:
        candidates = names(AdminClient({"bootstrap.servers": servers, "log_level": 0}))
    except (KafkaException, TimeoutError):
        return []
    # A name that a terminal would obey can be typed, but is not put there.
    return sorted(name for name in candidates if name.startswith(incomplete) and one_line(name) == name)
