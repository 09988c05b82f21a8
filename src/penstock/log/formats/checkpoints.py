"""Kafka's checkpoint files: a version line, a count line, then one entry per line. Text in, text out; no disk here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.core.types import TopicPartition

_VERSION = "0"


def encode_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode("utf-8")


def decode_lines(data: bytes) -> list[str]:
    """ValueError when version or count do not fit; no entries when the file is empty, as Kafka leaves a new file."""
    if not data:
        return []
    version, *rest = data.decode("utf-8").splitlines()
    if version != _VERSION:
        raise ValueError(f"checkpoint version {version!r} is not {_VERSION}")
    if not rest:
        return []
    count, *lines = rest
    if int(count) != len(lines):
        raise ValueError(f"checkpoint promises {count} entries and holds {len(lines)}")
    return lines


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())])


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    offsets = {}
    for line in decode_lines(data):
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets
