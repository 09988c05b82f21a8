"""The events of an audit trail, from its files or from its topic."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.cli.access.cluster_client import ClusterClient, list_partitions
from penstock.cli.access.offsets import find_range
from penstock.cli.errors import UsageError, explain
from penstock.core.internal_topics import AUDIT
from penstock.core.types import TopicPartition

_POLL_SECONDS = 0.2
_BATCH_RECORDS = 500


def trail_files(path: Path) -> list[Path]:
    """The closed files of the trail, the oldest first, and the one that is written."""
    prefix = f"{path.name}."
    inside = path.parent.iterdir() if path.parent.is_dir() else ()
    closed = sorted(
        each for each in inside if each.name.startswith(prefix) and each.name.removeprefix(prefix).isdigit()
    )
    found = [*closed, *([path] if path.is_file() else ())]
    if not found:
        raise UsageError(f"{path} does not exist", "The broker writes it where penstock.audit.file says.")
    return found


def read_files(path: Path) -> Iterator[bytes]:
    """Every whole line."""
    for each in trail_files(path):
        with each.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):  # else the broker is writing it
                    yield line


def follow_file(path: Path) -> Iterator[bytes]:
    """Lines as they come, also over changes of the file. Never ends by itself."""
    trail_files(path)
    file = path.open("rb") if path.exists() else None
    if file is not None:
        file.seek(0, os.SEEK_END)
    rest = b""
    while True:
        data = b"" if file is None else file.readline()
        if data:
            rest += data
            if rest.endswith(b"\n"):
                yield rest
                rest = b""
            continue
        if path.exists() and (file is None or path.stat().st_ino != os.fstat(file.fileno()).st_ino):
            if file is not None:
                file.close()
            file, rest = path.open("rb"), b""
            continue
        time.sleep(_POLL_SECONDS)


def read_topic(cluster: ClusterClient, *, follow: bool = False) -> Iterator[bytes]:
    """Everything that the topic holds now; with `follow` what comes from now on, without an end."""
    from confluent_kafka import TopicPartition as ClientPartition

    admin = cluster.admin()
    keys = [TopicPartition(AUDIT, partition) for partition in list_partitions(admin, AUDIT)]
    ranges = find_range(admin, keys)
    waited_for = {key for key, span in ranges.items() if len(span)}
    # The library insists on a group; this one is never joined and commits nothing.
    private: dict[str, Any] = {"group.id": f"penstock-cli-{uuid.uuid4()}", "enable.auto.commit": False}
    consumer = cluster.consumer({**private, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    with contextlib.closing(consumer):
        starts = {key: span.stop if follow else span.start for key, span in ranges.items()}
        consumer.assign([ClientPartition(key.topic, key.partition, offset) for key, offset in starts.items()])
        while follow or waited_for:
            for message in consumer.consume(_BATCH_RECORDS, _POLL_SECONDS):
                key = TopicPartition(message.topic() or "", message.partition() or 0)
                error, offset = message.error(), message.offset() or 0
                if error is not None:
                    if error.name() != "_PARTITION_EOF":
                        raise explain(error.name(), error.str())
                    waited_for.discard(key)
                    continue
                if offset + 1 >= ranges[key].stop:
                    waited_for.discard(key)
                value: Any = message.value()  # the library's words for it miss that tombstones have none
                if value is not None and (follow or offset < ranges[key].stop):
                    yield value
