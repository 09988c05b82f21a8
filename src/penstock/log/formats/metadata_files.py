"""The small text files: `partition.metadata` of a partition, `meta.properties` and the clean-shutdown mark of a
directory.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from penstock.core.types import TopicId, format_topic_id, parse_topic_id

UNKNOWN_BROKER_EPOCH = -1


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {format_topic_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> TopicId:
    """ValueError when the file has another format."""
    fields = dict(line.split(": ", 1) for line in data.decode("utf-8").splitlines() if line)
    if fields.get("version") != "0":
        raise ValueError(f"partition.metadata version {fields.get('version')!r} is not 0")
    if "topic_id" not in fields:
        raise ValueError("partition.metadata names no topic_id")
    return parse_topic_id(fields["topic_id"])


class Moved(NamedTuple):
    """The content of `penstock.moved`: the log's former data directory, and whether the log there is out of date
    whatever it holds.
    """

    source: str
    is_final: bool


def encode_moved(moved: Moved) -> bytes:
    return json.dumps({"version": 0, "source": moved.source, "isFinal": moved.is_final}).encode()


def decode_moved(data: bytes) -> Moved:
    """ValueError when the file has another format."""
    try:
        fields = json.loads(data)
        return Moved(str(fields["source"]), bool(fields["isFinal"]))
    except (KeyError, TypeError) as error:
        raise ValueError("it does not say where the log came from") from error


class DirectoryIdentity(NamedTuple):
    """The owner of a data directory: one node of one cluster."""

    node_id: int
    cluster_id: str
    directory_id: TopicId | None  # directories from before Kafka 3.7 have none yet


def encode_meta_properties(identity: DirectoryIdentity) -> bytes:
    lines = ["#", "version=1", f"node.id={identity.node_id}", f"cluster.id={identity.cluster_id}"]
    if identity.directory_id is not None:
        lines.append(f"directory.id={format_topic_id(identity.directory_id)}")
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def decode_meta_properties(data: bytes) -> DirectoryIdentity:
    """ValueError when a property is missing or invalid."""
    properties: dict[str, str] = {}
    for line in data.decode("utf-8").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, separator, value = line.partition("=")
            if not separator:
                raise ValueError(f"meta.properties holds {line!r}, which sets nothing")
            properties[name.strip()] = value.strip().replace("\\", "")
    if properties.get("version") != "1":
        raise ValueError(f"meta.properties version {properties.get('version')!r} is not 1")
    missing = {"node.id", "cluster.id"} - properties.keys()
    if missing:
        raise ValueError(f"meta.properties does not set {', '.join(sorted(missing))}")
    directory_id = properties.get("directory.id")
    return DirectoryIdentity(
        int(properties["node.id"]), properties["cluster.id"], parse_topic_id(directory_id) if directory_id else None
    )


def decode_clean_shutdown(data: bytes) -> int:
    """The broker's epoch, or UNKNOWN_BROKER_EPOCH where the file has none: Kafka wrote empty files once."""
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH


def encode_clean_shutdown(broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode("ascii")
