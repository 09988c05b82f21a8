"""A delta as bytes: JSON, compressed. The states of a topic's partitions are alike and shrink to a few bytes each.

Every delta carries its format: the level of the metadata after the delta. A broker that reads a later format than it
knows reports that and stops there: half of a change would be worse than none.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from penstock.cluster.deltas.delta import DeletedTopic, Delta, TopicChange
from penstock.cluster.deltas.security import security_from_json, security_to_json
from penstock.cluster.image import PartitionState, Settings, TopicImage
from penstock.cluster.levels import FIRST_LEVEL, SUPPORTED
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.core.types import format_topic_id, parse_topic_id

# The controller writes deltas in the turn of a waiting client: the fastest level gives most of the possible gain.
_COMPRESSION_LEVEL = 1
_STATES_AT_ONCE = 500


def encode_delta(delta: Delta, level: int = FIRST_LEVEL) -> bytes:
    value: dict[str, Any] = {
        "format": level,
        "number": delta.number,
        "id": delta.unique_id,
        "controller": delta.controller_id,
        "controller_epoch": delta.controller_epoch,
        "brokers": None if delta.brokers is None else znodes.brokers_to_json(delta.brokers),
        "deleted": [(name, format_topic_id(topic_id), count) for name, topic_id, count in delta.deleted],
        "broker_configs": {str(node_id): dict(settings) for node_id, settings in delta.broker_configs.items()},
        "default_broker_config": None if delta.default_broker_config is None else dict(delta.default_broker_config),
        "group_configs": {group: dict(settings) for group, settings in delta.group_configs.items()},
        "new_groups": delta.new_groups,
    }
    if delta.metadata_level is not None:
        value["metadata_level"] = delta.metadata_level
    if delta.directories is not None:
        value["directories"] = znodes.directories_to_json(delta.directories)
    if delta.away is not None:
        # Without a level of its own: an earlier version passes over the key, and does without
        # (`MetadataImage.registered`).
        value["away"] = znodes.brokers_to_json(delta.away)
    if delta.security is not None:
        value["security"] = security_to_json(delta.security)
    created = ",".join(_dump_topic(topic) for topic in delta.created)
    changed = ",".join(_dump_change(change) for change in delta.changed)
    text = f'{_dump(value)[:-1]},"created":[{created}],"changed":[{changed}]}}'
    return zlib.compress(text.encode(), _COMPRESSION_LEVEL)


def _dump_topic(topic: TopicImage) -> str:
    name_and_id = _dump((topic.name, format_topic_id(topic.topic_id)))[1:-1]
    return f"[{name_and_id},{_dump_states(topic.partitions)},{_dump(dict(topic.configs))}]"


def _dump_change(change: TopicChange) -> str:
    head = _dump((change.name, format_topic_id(change.topic_id), change.partitions_before))[1:-1]
    tail = _dump((change.is_reassigned, None if change.configs is None else dict(change.configs)))[1:-1]
    return f"[{head},{_dump_states(change.states)},{tail}]"


def _dump_states(states: Sequence[PartitionState]) -> str:
    """Dumps in pieces: a call of `json.dumps` keeps every other thread waiting, and 10,000 states take it 10 ms."""
    pieces = (states[first : first + _STATES_AT_ONCE] for first in range(0, len(states), _STATES_AT_ONCE))
    return f"[{','.join(_dump(piece)[1:-1] for piece in pieces)}]"


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def delta_number(data: bytes) -> int | None:
    """None for bytes that are no delta. The checksum of the compression is compared."""
    return _number_in(data, "number")


def delta_level(data: bytes) -> int:
    """The level of the metadata after the delta; 0 for bytes that are no delta."""
    return _number_in(data, "format") or 0


def _number_in(data: bytes, key: str) -> int | None:
    try:
        return int(json.loads(zlib.decompress(data))[key])
    except (zlib.error, ValueError, KeyError, TypeError):
        return None


def decode_delta(path: str, data: bytes, highest_level: int = SUPPORTED.highest) -> Delta:
    """Raises StoreError(CORRUPT) for bytes that are no delta, or a delta of a later version of Penstock."""
    try:
        value = json.loads(zlib.decompress(data))
        check_format(path, int(value["format"]), highest_level)
        brokers, default = value["brokers"], value["default_broker_config"]
        return Delta(
            int(value["number"]),
            str(value["id"]),
            int(value["controller"]),
            int(value["controller_epoch"]),
            None if brokers is None else znodes.brokers_from_json(brokers),
            tuple(DeletedTopic(name, parse_topic_id(topic_id), count) for name, topic_id, count in value["deleted"]),
            tuple(
                TopicImage(name, parse_topic_id(topic_id), tuple(map(_state, states)), _settings(configs))
                for name, topic_id, states, configs in value["created"]
            ),
            tuple(map(_topic_change, value["changed"])),
            {int(node_id): _settings(settings) for node_id, settings in value["broker_configs"].items()},
            None if default is None else _settings(default),
            {group: _settings(settings) for group, settings in value["group_configs"].items()},
            tuple(value["new_groups"]),
            value.get("metadata_level"),
            znodes.directories_from_json(value["directories"]) if "directories" in value else None,
            security_from_json(value["security"]) if "security" in value else None,
            znodes.brokers_from_json(value["away"]) if "away" in value else None,
        )
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(StoreErrorKind.CORRUPT, path, f"the delta cannot be understood: {error!r}") from error


def check_format(path: str, level: int, highest_level: int) -> None:
    if level > highest_level:
        detail = (
            f"the cluster's metadata is written in format {level}, and this version of Penstock reads format "
            f"{highest_level}: update this broker to the version that the controller runs"
        )
        raise StoreError(StoreErrorKind.CORRUPT, path, detail)


def _topic_change(value: list[Any]) -> TopicChange:
    name, topic_id, count, states, is_reassigned, configs = value
    return TopicChange(
        name,
        parse_topic_id(topic_id),
        count,
        tuple(map(_state, states)),
        is_reassigned,
        None if configs is None else _settings(configs),
    )


def _state(value: list[Any]) -> PartitionState:
    partition, replicas, isr, leader, leader_epoch, partition_epoch, adding, removing = value
    return PartitionState(
        partition,
        tuple(replicas),
        tuple(isr),
        leader,
        leader_epoch,
        partition_epoch,
        tuple(adding),
        tuple(removing),
    )


def _settings(value: dict[str, str]) -> Settings:
    return MappingProxyType(value)
