"""Forgets how far a pipeline has come."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.kafka.client_settings import to_librdkafka
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.runtime.runner import checkpoint_of, groups_of

_TIMEOUT_S = 10.0
# What no group by that name looks like from outside.
_NOTHING_THERE = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID})


def forget_progress(pipeline: Pipeline) -> Iterator[str]:
    """Deletes the checkpoint and the group, and returns what was done. Leaves a checkpoint that is not on a local disk
    to its owner."""
    location = checkpoint_of(pipeline)
    parsed = urlparse(location)
    if parsed.scheme not in ("", "file"):
        raise PipelineError(
            f"the checkpoint {location} is not on a local disk", "Delete it with that file system's own tools."
        )
    path = Path(parsed.path if parsed.scheme else location)
    if path.exists():
        shutil.rmtree(path)
        yield f"deleted the checkpoint {path}"
    else:
        yield f"there was no checkpoint {path}"
    settings = pipeline.settings
    client = to_librdkafka({**settings.kafka, "bootstrap.servers": settings.bootstrap_servers})
    admin = AdminClient(dict(client))
    for group in groups_of(pipeline).values():
        yield _delete_group(admin, group)


def _delete_group(admin: AdminClient, group: str) -> str:
    try:
        admin.delete_consumer_groups([group], request_timeout=_TIMEOUT_S)[group].result(_TIMEOUT_S)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() not in _NOTHING_THERE:
            raise PipelineError(f"the group {group} could not be deleted: {reason.str()}") from error
        return f"there was no group {group}"
    return f"deleted the group {group}"
