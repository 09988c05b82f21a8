"""A snapshot of the metadata: the deltas that lead from the empty image to the image of one number.

Rules:
- `replay` reads a snapshot as it reads the log. There is no second format.
- No part is larger than a delta may be. Topics are divided, and so are the rules of a resource. Any other value arrived
  in one delta, so it fits a part of its own.
- A snapshot is whole from the moment on at which the log's position names it. No broker reads a snapshot before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.cluster.deltas.delta import Delta, TopicChange
from penstock.cluster.deltas.encoding import encode_delta
from penstock.cluster.deltas.security import NO_SECURITY_DELTA
from penstock.cluster.image import MetadataImage, TopicImage
from penstock.cluster.levels import SNAPSHOT_LEVEL
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store import znodes
from penstock.security.acls.types import AclEntry, ResourcePattern

# The number of characters of JSON in a part, about: less than the bytes of any delta, so a part fits however badly it
# compresses. A part of partitions' states has some 100 KB then, and brokers read it in a few turns of the loop. The
# measure is the written text: a character outside of ASCII takes six.
_PART_CHARACTERS = 400_000
# The characters of a partition's state with three replicas; of an ACL, beside its text.
_STATE_CHARACTERS = 60
_RULE_CHARACTERS = 40

# Fields of a delta, by the number of their values in one part.
_SINGLE = ("brokers", "away", "directories", "default_broker_config")
_LISTS = ("created", "changed")
_MAPPINGS = ("broker_configs", "group_configs")
_OF_SECURITY = ("acls_added", "entity_configs", "tokens", "policies")


class _Piece(NamedTuple):
    field: str
    value: Any  # of a mapping a key and its value
    characters: int


def snapshot_parts(image: MetadataImage) -> Iterator[bytes]:
    """Encodes each part on demand: some 50 ms, meant for a thread. There is at least one part."""
    empty = Delta(image.number, "", image.controller_id, image.controller_epoch)
    part, pieces, characters = empty._replace(metadata_level=image.metadata_level), list[_Piece](), 0
    for piece in _pieces(image):
        if pieces and characters + piece.characters > _PART_CHARACTERS:
            yield encode_delta(_with_pieces(part, pieces), SNAPSHOT_LEVEL)
            part, pieces, characters = empty, [], 0
        pieces.append(piece)
        characters += piece.characters
    yield encode_delta(_with_pieces(part, pieces), SNAPSHOT_LEVEL)


def _with_pieces(part: Delta, pieces: list[_Piece]) -> Delta:
    values: dict[str, list[Any]] = {}
    for piece in pieces:
        values.setdefault(piece.field, []).append(piece.value)
    fields: dict[str, Any] = {name: found[0] for name, found in values.items() if name in _SINGLE}
    fields |= {name: tuple(found) for name, found in values.items() if name in _LISTS}
    fields |= {name: dict(found) for name, found in values.items() if name in _MAPPINGS}
    security: dict[str, Any] = {name: dict(found) for name, found in values.items() if name in _OF_SECURITY}
    return part._replace(**fields, security=NO_SECURITY_DELTA._replace(**security) if security else None)


def _pieces(image: MetadataImage) -> Iterator[_Piece]:
    yield _Piece("brokers", image.brokers, _length(znodes.brokers_to_json(image.brokers)))
    yield _Piece("away", image.away, _length(znodes.brokers_to_json(image.away)))
    yield _Piece("directories", image.directories, _length(znodes.directories_to_json(image.directories)))
    yield _Piece("default_broker_config", image.default_broker_config, _length(dict(image.default_broker_config)))
    for node_id, settings in image.broker_configs.items():
        yield _Piece("broker_configs", (node_id, settings), _length({node_id: dict(settings)}))
    for group, settings in image.group_configs.items():
        yield _Piece("group_configs", (group, settings), _length({group: dict(settings)}))
    yield from _security_pieces(image.security)
    for topic in image.topics.values():
        yield from _topic_pieces(topic)


def _security_pieces(image: SecurityImage) -> Iterator[_Piece]:
    for resource, entries in image.acls.items():
        yield from _rule_pieces(resource, entries)
    for field in ("entity_configs", "tokens", "policies"):
        for key, settings in getattr(image, field).items():
            yield _Piece(field, (key, settings), _length({key: dict(settings)}))


def _rule_pieces(resource: ResourcePattern, entries: tuple[AclEntry, ...]) -> Iterator[_Piece]:
    """Each piece but the last fills a part, so no part has two. ACLs of a later part stand behind those of earlier
    parts.
    """
    start, characters = 0, _text_length(resource.name)
    for end, entry in enumerate(entries, 1):
        characters += _RULE_CHARACTERS + _text_length(entry.principal) + _text_length(entry.host)
        if characters >= _PART_CHARACTERS or end == len(entries):
            yield _Piece("acls_added", (resource, entries[start:end]), characters)
            start, characters = end, _text_length(resource.name)


def _topic_pieces(topic: TopicImage) -> Iterator[_Piece]:
    replicas = max((len(state.replicas) for state in topic.partitions), default=0)
    each = _STATE_CHARACTERS + 20 * max(0, replicas - 3)
    at_once, text = max(1, _PART_CHARACTERS // each), _length((topic.name, dict(topic.configs)))
    count = max(1, (_PART_CHARACTERS - text) // each)  # the settings alone may fill a part
    first = topic._replace(partitions=topic.partitions[:count])
    yield _Piece("created", first, text + each * len(first.partitions))
    for start in range(count, len(topic.partitions), at_once):
        states = topic.partitions[start : start + at_once]
        change = TopicChange(topic.name, topic.topic_id, start, states, is_reassigned=True)
        yield _Piece("changed", change, each * len(states))


def _length(value: object) -> int:
    return len(json.dumps(value))


def _text_length(text: str) -> int:
    """The same in a tenth of the time, for values of which there are 100,000."""
    return len(text) if text.isascii() else 3 * len(text.encode("utf-16-le", "surrogatepass"))
