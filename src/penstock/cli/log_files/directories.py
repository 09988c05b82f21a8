"""The partitions of a data directory, from the names and sizes of its files alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli.output import Table
from penstock.cli.text import format_size
from penstock.core.types import format_topic_id
from penstock.log.formats import names
from penstock.log.formats.metadata_files import decode_partition_metadata

_STATES = {
    names.DELETE_DIRECTORY: "to be deleted",
    names.FUTURE_DIRECTORY: "moving here",
    names.STRAY_DIRECTORY: "stray",
}


class PartitionFiles(NamedTuple):
    directory: Path
    topic: str
    partition: int
    topic_id: str | None
    segments: int
    size: int
    first_segment: int | None  # base offset of the oldest segment
    last_segment: int | None
    state: str


def scan_directory(directory: Path, topics: frozenset[str] | None) -> list[PartitionFiles]:
    partitions = []
    for path in sorted(path for path in directory.iterdir() if path.is_dir()):
        partition = _read_partition(directory, path)
        if partition is not None and (topics is None or partition.topic in topics):
            partitions.append(partition)
    return sorted(partitions, key=lambda partition: (partition.topic, partition.partition))


def _read_partition(directory: Path, path: Path) -> PartitionFiles | None:
    state, name = "", path.name
    for suffix, words in _STATES.items():
        if name.endswith(suffix):
            state, name = words, name.removesuffix(suffix).rpartition(".")[0]
    key = names.parse_partition_directory(name)
    if key is None:
        return None
    segments = sorted(
        base_offset
        for child in path.glob(f"*{names.LOG}")
        if (base_offset := names.base_offset_of(child.name)) is not None
    )
    size = sum(child.stat().st_size for child in path.glob(f"*{names.LOG}"))
    first, last = (segments[0], segments[-1]) if segments else (None, None)
    return PartitionFiles(
        directory, key.topic, key.partition, _read_topic_id(path), len(segments), size, first, last, state
    )


def _read_topic_id(path: Path) -> str | None:
    try:
        return format_topic_id(decode_partition_metadata((path / names.PARTITION_METADATA).read_bytes()))
    except (OSError, ValueError):
        return None


def directory_table(partitions: Iterable[PartitionFiles]) -> Table:
    table = Table(("DIRECTORY", "TOPIC", ">PARTITION", ">SEGMENTS", ">SIZE", ">FROM", ">LAST SEGMENT", "STATE"))
    for partition in partitions:
        table.add(
            partition.directory, partition.topic, partition.partition, partition.segments, format_size(partition.size),
            partition.first_segment, partition.last_segment, partition.state,
        )  # fmt: skip
    return table


def directory_documents(partitions: Iterable[PartitionFiles]) -> list[dict[str, Any]]:
    return [{**partition._asdict(), "directory": str(partition.directory)} for partition in partitions]
