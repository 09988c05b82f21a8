"""Looks for nodes that other programs wrote, when a controller begins its term from `SNAPSHOT_LEVEL` on.

Kafka's tools before 3.0 write into ZooKeeper. None of these writes counts here. So a warning names the command that
does the same here. A broker warns of a node once, as long as the node does not change:

- A node of no setting or ACL of ours is left where it is. `old_tools` looks for topics.
- A changed or deleted node of ours is drawn again. Of topics, the node itself and that of its settings are checked: no
  tool writes the states of partitions, and there may be hundreds of thousands. A topic whose own node is wrong is drawn
  again with all its partitions.
- A node that the store does not let us read stays as it is.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.cluster.deltas.blurred_image import Blurred
from penstock.cluster.deltas.picture import NO_SETTINGS, SECURITY_KINDS, can_be_drawn, is_left_out
from penstock.cluster.image import MetadataImage
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import Create, Node, Store
from penstock.cluster.store.tree_walk import AT_ONCE, AllowedReads, walk_parts
from penstock.cluster.strangers.reports import (
    News,
    Told,
    checksum,
    find_news,
    is_broker_name,
    warn_of_changed,
    warn_of_ignored,
    warn_of_unread,
)


class _Expected(NamedTuple):
    path: str
    encode: Callable[[Any], bytes]
    value: Any
    blur: Callable[..., None]
    key: tuple[Any, ...]

    @property
    def data(self) -> bytes:
        return self.encode(self.value)


_NAMED_ROOTS = (znodes.TOPICS, znodes.TOPIC_CONFIGS, znodes.BROKER_CONFIGS, znodes.GROUP_CONFIGS)
_Names = Mapping[str, Sequence[str]]
_FOREIGN = "foreign nodes"


async def blur_changed(store: Store, image: MetadataImage, left_out: Collection[str], told: Told) -> MetadataImage:
    """The image, blurred where nodes, which all are drawn, differ from the image. Warns of these, and of foreign nodes.
    `left_out` are paths that are not drawn, with all below them. `told` has the earlier warnings.

    Nodes are read in parts and not kept. Work of some us per node runs in threads.
    """
    reads = AllowedReads(store)
    names = {root: await reads.names(root) for root in _NAMED_ROOTS}
    look = await asyncio.to_thread(_Look, image, names)
    secured = walk_parts(reads.read, reads.names, security_nodes.ROOTS, frozenset(), security_nodes.may_have_children)
    async for nodes in secured:
        await asyncio.to_thread(look.compare, nodes)
    while paths := await asyncio.to_thread(look.take, AT_ONCE):
        await asyncio.to_thread(look.compare, await reads.read(paths))
    found = await asyncio.to_thread(look.conclude, left_out, reads.refused, told.known(_FOREIGN))
    warn_of_ignored(told.keep(_FOREIGN, found.foreign))
    warn_of_changed(found.changed)
    warn_of_unread(told.news("unread nodes", dict.fromkeys(reads.refused, b"")))
    return found.image


class _Found(NamedTuple):
    image: MetadataImage
    foreign: News
    changed: list[str]


class _Look:
    """Compares nodes with those of the image, in threads, one call at a time."""

    def __init__(self, image: MetadataImage, names: _Names) -> None:
        self._image = image
        self._blurred = Blurred(image)
        expected = (*_expected_topics(image, self._blurred), *_expected_settings(image, self._blurred, names))
        # The nodes that have not been compared.
        self._expected = {each.path: each for each in expected}
        self._strange = set(_settings_paths(self._expected, names))
        self._unread = deque((*self._strange, *self._expected))
        self._foreign = dict.fromkeys(_foreign_settings(image, names), checksum(b""))
        self._changed: list[_Expected] = []

    def take(self, most: int) -> list[str]:
        """The next paths of the image, and of settings that are not of the image, without the compared paths."""
        taken: list[str] = []
        while self._unread and len(taken) < most:
            path = self._unread.popleft()
            if path in self._expected or path in self._strange:
                taken.append(path)
        return taken

    def compare(self, nodes: Mapping[str, Node]) -> None:
        for path, node in nodes.items():
            expected = self._expected.pop(path, None)
            if expected is None:
                if _holds_something(node):
                    self._foreign[path] = checksum(node.data)
            elif not _is_same(node, expected.data):
                self._changed.append(expected)

    def conclude(self, left_out: Collection[str], refused: Collection[str], known: Mapping[str, int]) -> _Found:
        """Nodes that have not been compared are missing, except for those that we may not read."""
        missing = [each for each in self._expected.values() if not is_left_out(each.path, refused)]
        changed = [
            each
            for each in (*self._changed, *missing)
            if not is_left_out(each.path, left_out) and can_be_drawn(Create(each.path, each.data))
        ]
        for each in changed:
            each.blur(*each.key)
        image = self._blurred.image if changed else self._image
        return _Found(image, find_news(known, self._foreign), [each.path for each in changed])


def _expected_topics(image: MetadataImage, blurred: Blurred) -> Iterator[_Expected]:
    """Every node of topics but the states of partitions."""
    for name, topic in image.topics.items():
        yield _Expected(znodes.topic_path(name), znodes.encode_topic, topic, blurred.blur_topic, (name,))
        path = znodes.topic_config_path(name)
        yield _Expected(path, znodes.encode_settings, topic.configs, blurred.blur_topic_config, (name,))


def _expected_settings(image: MetadataImage, blurred: Blurred, names: _Names) -> Iterator[_Expected]:
    encode, blur = znodes.encode_settings, blurred.blur_settings
    path = znodes.broker_config_path(None)
    yield _Expected(path, encode, image.default_broker_config, blurred.blur_default_config, ())
    yield _Expected(znodes.FEATURES, znodes.encode_features, image.metadata_level, blurred.blur_level, ())
    # The node of a broker without settings exists since the broker first registered.
    brokers = {int(name) for name in names[znodes.BROKER_CONFIGS] if is_broker_name(name)} | set(image.broker_configs)
    for node_id in sorted(brokers):
        settings = image.broker_configs.get(node_id, {})
        yield _Expected(znodes.broker_config_path(node_id), encode, settings, blur, ("broker_configs", node_id))
    for group, settings in image.group_configs.items():
        yield _Expected(znodes.group_config_path(group), encode, settings, blur, ("group_configs", group))
    for field, path_of, encode_value, _ in SECURITY_KINDS:
        for key, value in getattr(image.security, field).items():
            yield _Expected(path_of(key), encode_value, value, blurred.blur_security, (field, key))


def _settings_paths(known: Container[str], names: _Names) -> list[str]:
    """Brokers and groups without settings in the image."""
    roots = (znodes.BROKER_CONFIGS, znodes.GROUP_CONFIGS)
    return [path for root in roots for name in names[root] if (path := f"{root}/{name}") not in known]


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


def _foreign_settings(image: MetadataImage, names: _Names) -> list[str]:
    """Foreign settings of topics. A topic that a tool made has two nodes, of which `old_tools` reports the other."""
    known = {*image.topics, *names[znodes.TOPICS]}
    return [znodes.topic_config_path(name) for name in names[znodes.TOPIC_CONFIGS] if name not in known]


def _holds_something(node: Node) -> bool:
    return bool(node.data) and not _is_same(node, NO_SETTINGS)
