"""A snapshot of a cluster's metadata, and its text. Pure.

The text is JSON that a person can read. It has a format version and a checksum over its content, so a truncated file or
a mistaken edit is refused, and a later version recognises the format.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.cluster.deltas.security import acls_from_json, acls_to_json, settings_from_json, settings_to_json
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.security_image import NO_SECURITY, SecurityImage
from penstock.cluster.store import znodes
from penstock.cluster.store.znodes import ProducerIdBlock
from penstock.core.types import format_topic_id, parse_topic_id

KIND = "penstock cluster snapshot"
FORMAT = 1


class SnapshotError(Exception):
    """`hint` is the next step for the user."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Snapshot:
    """The image at one position of the log, and the values beside it in the store. The counters were read after the
    image, so none of them is behind it.
    """

    image: MetadataImage
    controller_epoch: int
    broker_sequence: int  # the newest broker epoch
    producer_ids: ProducerIdBlock | None = None
    # Nodes that this version does not know, unchanged.
    other_nodes: Mapping[str, bytes] = field(default_factory=dict)
    taken_at: str = ""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    cluster = _to_json(snapshot)
    document = {
        "kind": KIND,
        "format": FORMAT,
        "taken_at": snapshot.taken_at,
        "checksum": _checksum(cluster),
        "cluster": cluster,
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def decode_snapshot(data: bytes) -> Snapshot:
    """Raises SnapshotError."""
    try:
        document = json.loads(data)
        kind, version, cluster = document["kind"], document["format"], document["cluster"]
        expected = document["checksum"]
    except json.JSONDecodeError as error:
        raise SnapshotError(f"this is no whole snapshot: {error}", "The file was cut short, or is another.") from None
    except (ValueError, KeyError, TypeError):
        raise SnapshotError(
            "this is no snapshot of a cluster", "`penstock cluster snapshot FILE` writes one."
        ) from None
    if kind != KIND:
        raise SnapshotError(f"this is no snapshot of a cluster, but {kind!r}")
    if version != FORMAT:
        raise SnapshotError(
            f"the snapshot has format {version}, and this version of Penstock knows {FORMAT}",
            "Use the version that took it, or a later one.",
        )
    if _checksum(cluster) != expected:
        raise SnapshotError("the snapshot's checksum does not fit: the file was changed", "Take another copy of it.")
    try:
        return _from_json(cluster, str(document.get("taken_at", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"the snapshot cannot be understood: {error!r}") from None


def checksum_of(snapshot: Snapshot) -> str:
    """Distinguishes this snapshot from any other."""
    return _checksum(_to_json(snapshot))


def _checksum(cluster: Any) -> str:
    """The checksum of the content, whatever its line breaks."""
    text = json.dumps(cluster, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _to_json(snapshot: Snapshot) -> dict[str, Any]:
    image, block = snapshot.image, snapshot.producer_ids
    return {
        "cluster_id": image.cluster_id,
        "log_position": image.number,
        "metadata_level": image.metadata_level,
        "controller_epoch": snapshot.controller_epoch,
        "broker_epoch": snapshot.broker_sequence,
        "producer_ids": None if block is None else {"first": block.first_producer_id, "count": block.size},
        # The present brokers are for the reader: brokers register again. The directories name the registered brokers.
        "brokers": {
            str(node_id): [str(endpoint) for endpoint in broker.endpoints]
            for node_id, broker in sorted(image.brokers.items())
        },
        "directories": {str(node_id): list(ids) for node_id, ids in sorted(image.directories.items())},
        "default_broker_config": dict(image.default_broker_config),
        "broker_configs": {str(node_id): dict(each) for node_id, each in sorted(image.broker_configs.items())},
        "group_configs": {group: dict(each) for group, each in sorted(image.group_configs.items())},
        "security": {
            "acls": acls_to_json(image.security.acls),
            "entity_configs": settings_to_json(image.security.entity_configs),
            "tokens": settings_to_json(image.security.tokens),
            "policies": settings_to_json(image.security.policies),
        },
        "topics": {name: _topic_to_json(image.topics[name]) for name in sorted(image.topics)},
        "other_nodes": {path: _text(data) for path, data in sorted(snapshot.other_nodes.items())},
    }


def _topic_to_json(topic: TopicImage) -> dict[str, Any]:
    return {
        "topic_id": format_topic_id(topic.topic_id),
        "config": dict(topic.configs),
        "partitions": [
            {
                "replicas": list(state.replicas),
                "isr": list(state.isr),
                "leader": state.leader,
                "leader_epoch": state.leader_epoch,
                **({"adding": list(state.adding)} if state.adding else {}),
                **({"removing": list(state.removing)} if state.removing else {}),
            }
            for state in topic.partitions
        ],
    }


def _from_json(cluster: dict[str, Any], taken_at: str) -> Snapshot:
    block = cluster["producer_ids"]
    image = MetadataImage(
        cluster_id=str(cluster["cluster_id"]),
        topics={name: _topic_from_json(name, value) for name, value in cluster["topics"].items()},
        broker_configs={int(node_id): _settings(each) for node_id, each in cluster["broker_configs"].items()},
        default_broker_config=_settings(cluster["default_broker_config"]),
        group_configs={str(group): _settings(each) for group, each in cluster["group_configs"].items()},
        directories=znodes.directories_from_json(cluster["directories"]),
        security=_security(cluster.get("security")),
        metadata_level=int(cluster["metadata_level"]),
        number=int(cluster["log_position"]),
    )
    return Snapshot(
        image,
        int(cluster["controller_epoch"]),
        int(cluster["broker_epoch"]),
        None if block is None else ProducerIdBlock(int(block["first"]), int(block["count"])),
        {str(path): _data(value) for path, value in cluster["other_nodes"].items()},
        taken_at,
    )


def _security(value: dict[str, Any] | None) -> SecurityImage:
    """Snapshots of level 1 have none."""
    if value is None:
        return NO_SECURITY
    return SecurityImage(
        acls_from_json(value["acls"]),
        *(settings_from_json(value[name]) for name in ("entity_configs", "tokens", "policies")),
    )


def _topic_from_json(name: str, value: dict[str, Any]) -> TopicImage:
    partitions = tuple(
        PartitionState(
            index,
            _nodes(each["replicas"]),
            _nodes(each["isr"]),
            int(each["leader"]),
            int(each["leader_epoch"]),
            0,
            _nodes(each.get("adding", ())),
            _nodes(each.get("removing", ())),
        )
        for index, each in enumerate(value["partitions"])
    )
    return TopicImage(name, parse_topic_id(value["topic_id"]), partitions, _settings(value["config"]))


def _nodes(value: Any) -> tuple[int, ...]:
    return tuple(map(int, value))


def _settings(value: dict[str, Any]) -> dict[str, str]:
    return {str(key): str(each) for key, each in value.items()}


def _text(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _data(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)
