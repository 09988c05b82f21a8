"""Looks for nodes that somebody else wrote, when a controller takes office from `SNAPSHOT_LEVEL` on.

Kafka's tools before 3.0 write into ZooKeeper. Nothing of that counts here. So whoever used one of them is told, once in
each controller's time, which command does it:

- A node of no topic, setting or rule of ours is left where it is.
- A node of ours that was changed or deleted is drawn anew. Of topics, the node itself and that of its settings are
  looked at: no tool writes the states of partitions, and there may be hundreds of thousands. A topic whose own node is
  wrong is drawn anew with all its partitions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from penstock.cluster.deltas.blurring import Blurred
from penstock.cluster.deltas.picture import NO_SETTINGS, SECURITY_KINDS, can_be_drawn
from penstock.cluster.foreign_nodes import is_broker_name, warn_of_changed, warn_of_ignored
from penstock.cluster.image import MetadataImage
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import Create, Node, Store
from penstock.cluster.store.walking import names_below, walk

# Nodes that are read and compared at once.
_AT_ONCE = 500


class _Expected(NamedTuple):
    path: str
    data: bytes
    blur: Callable[[], None]


_NAMED_ROOTS = (znodes.TOPICS, znodes.TOPIC_CONFIGS, znodes.BROKER_CONFIGS, znodes.GROUP_CONFIGS)


async def blur_changed(store: Store, image: MetadataImage, left_out: Collection[str]) -> MetadataImage:
    """The image, blurred where nodes are not those of the image, which all are drawn. Warns of these, and of nodes that
    are none of ours. `left_out` are paths that are not drawn.
    """
    blurred = Blurred(image)
    names = {root: await names_below(store, root) for root in _NAMED_ROOTS}
    secured = await walk(store, *security_nodes.ROOTS, has_children=security_nodes.may_have_children)
    expected = await asyncio.to_thread(_expected, image, blurred, names[znodes.BROKER_CONFIGS])
    changed = [each for each in await _different(store, expected, secured) if each.path not in left_out]
    known = {each.path for each in expected}
    foreign = [*_foreign_topics(image, names), *await _foreign_settings(store, known, names)]
    foreign += await asyncio.to_thread(_foreign_security, known, secured)
    warn_of_ignored(foreign)
    warn_of_changed([each.path for each in changed])
    for each in changed:
        each.blur()
    return blurred.image if changed else image


def _expected(image: MetadataImage, blurred: Blurred, broker_names: Iterable[str]) -> list[_Expected]:
    """Every node of the picture but the states of partitions. In a thread: each takes some 10 us."""
    return [*_expected_topics(image, blurred), *_expected_settings(image, blurred, broker_names)]


def _expected_topics(image: MetadataImage, blurred: Blurred) -> Iterator[_Expected]:
    for name, topic in image.topics.items():
        yield _Expected(znodes.topic_path(name), znodes.encode_topic(topic), partial(blurred.blur_topic, name))
        config = znodes.encode_settings(topic.configs)
        yield _Expected(znodes.topic_config_path(name), config, partial(blurred.blur_topic_config, name))


def _expected_settings(image: MetadataImage, blurred: Blurred, broker_names: Iterable[str]) -> Iterator[_Expected]:
    default = znodes.encode_settings(image.default_broker_config)
    yield _Expected(znodes.broker_config_path(None), default, blurred.blur_default_config)
    yield _Expected(znodes.FEATURES, znodes.encode_features(image.metadata_level), blurred.blur_level)
    # The node of a broker without settings is there since the broker first registered.
    brokers = {int(name) for name in broker_names if is_broker_name(name)} | set(image.broker_configs)
    for node_id in sorted(brokers):
        data = znodes.encode_settings(image.broker_configs.get(node_id, {}))
        yield _Expected(
            znodes.broker_config_path(node_id), data, partial(blurred.blur_settings, "broker_configs", node_id)
        )
    for group, settings in image.group_configs.items():
        data = znodes.encode_settings(settings)
        yield _Expected(znodes.group_config_path(group), data, partial(blurred.blur_settings, "group_configs", group))
    for field, path_of, encode in SECURITY_KINDS:
        for key, value in getattr(image.security, field).items():
            yield _Expected(path_of(key), encode(value), partial(blurred.blur_security, field, key))


async def _different(store: Store, expected: Sequence[_Expected], known: Mapping[str, Node]) -> list[_Expected]:
    """`known` are nodes that have been read."""
    different: list[_Expected] = []
    for start in range(0, len(expected), _AT_ONCE):
        part = expected[start : start + _AT_ONCE]
        unread = [each.path for each in part if each.path not in known]
        read = dict(zip(unread, await store.read_many(unread), strict=True)) if unread else {}
        different += await asyncio.to_thread(_not_same, part, read, known)
    return different


def _not_same(
    expected: Sequence[_Expected], read: Mapping[str, Node | None], known: Mapping[str, Node]
) -> list[_Expected]:
    """A node that no store can hold is not drawn."""
    return [
        each
        for each in expected
        if not _is_same(read.get(each.path) or known.get(each.path), each.data)
        and can_be_drawn(Create(each.path, each.data))
    ]


def _is_same(node: Node | None, data: bytes) -> bool:
    """An earlier version may have written the same in another order, and an empty node holds no settings."""
    if node is None:
        return False
    if node.data == data or (not node.data and data == NO_SETTINGS):
        return True
    try:
        return bool(json.loads(node.data) == json.loads(data))
    except ValueError:
        return False


def _foreign_topics(image: MetadataImage, names: Mapping[str, Sequence[str]]) -> list[str]:
    """A topic that a tool made has two nodes: one is told."""
    topics = [name for name in names[znodes.TOPICS] if name not in image.topics]
    known = {*image.topics, *topics}
    configs = [name for name in names[znodes.TOPIC_CONFIGS] if name not in known]
    return [*map(znodes.topic_path, topics), *map(znodes.topic_config_path, configs)]


async def _foreign_settings(store: Store, known: Collection[str], names: Mapping[str, Sequence[str]]) -> list[str]:
    paths = [
        path
        for root in (znodes.BROKER_CONFIGS, znodes.GROUP_CONFIGS)
        for name in names[root]
        if (path := f"{root}/{name}") not in known
    ]
    nodes = await store.read_many(paths) if paths else []
    return [path for path, node in zip(paths, nodes, strict=True) if node is not None and _holds_something(node)]


def _foreign_security(known: Collection[str], nodes: Mapping[str, Node]) -> list[str]:
    return [path for path, node in nodes.items() if path not in known and _holds_something(node)]


def _holds_something(node: Node) -> bool:
    return bool(node.data) and not _is_same(node, NO_SETTINGS)
