"""Reads the metadata image from a store.

From `SNAPSHOT_LEVEL` on the image is in the snapshot that the log's position names, and in the deltas behind it.
Nothing else in the store counts. Where the position names another snapshot when the parts have been read, everything is
read again.

Below that level the loader reads Kafka's nodes. The reads are not made at one moment, and a change may come meanwhile.
So the loader reads the position of the log before and after. Where it moved, the deltas in between are replayed: they
hold whole values, so the result is right whatever was read of them already. A node that is missing then is a race. It
is damage where the log stood still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from penstock.cluster.deltas.delta import Delta, Replay
from penstock.cluster.deltas.encoding import decode_delta
from penstock.cluster.deltas.position import LogPosition, SnapshotMark, decode_position
from penstock.cluster.image import MetadataImage, Settings, TopicImage
from penstock.cluster.levels import FIRST_LEVEL, SNAPSHOT_LEVEL, SUPPORTED
from penstock.cluster.security_image import NO_SECURITY, SecurityImage
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import FIRST_VERSION, Node, Store, StoreError, StoreErrorKind
from penstock.cluster.store.tree_walk import walk
from penstock.cluster.strangers.reports import is_broker_name, warn_of_ignored
from penstock.core.types import TopicId

# The number of attempts, each of which reads everything. Where the log moves by more than it keeps in each of them, the
# store is not the problem.
_ATTEMPTS = 10
# The bytes of deltas that a turn of the loop decodes: some 2 ms. A thread decodes more.
_DECODED_IN_TURN = 2_000


class StoredPosition(NamedTuple):
    position: LogPosition
    # The version of the node, against which the next change of the metadata is compared.
    version: int


class Loaded(NamedTuple):
    image: MetadataImage
    stored: StoredPosition


class _Read(NamedTuple):
    image: MetadataImage
    # The path of a missing node, for each topic with one. The image does not have these topics.
    missing: dict[TopicId, str]


async def load_image(store: Store, highest_level: int = SUPPORTED.highest) -> MetadataImage:
    return (await load(store, highest_level)).image


async def load(store: Store, highest_level: int = SUPPORTED.highest) -> Loaded:
    """Loads everything in the store. Raises StoreError(CORRUPT) when a node is missing or unreadable."""
    for _ in range(_ATTEMPTS):
        before = (await read_position(store, highest_level)).position
        if before.snapshot is None:
            loaded = await _load_nodes(store, before, highest_level)
        else:
            loaded = await _load_snapshot(store, before.snapshot, highest_level)
        if loaded is not None:
            return loaded
    detail = f"the metadata changed faster than it could be read, {_ATTEMPTS} times"
    raise StoreError(StoreErrorKind.UNAVAILABLE, znodes.LOG, detail)


async def _load_nodes(store: Store, before: LogPosition, highest_level: int) -> Loaded | None:
    """None where the log has moved too far since the first position."""
    read = await _read_nodes(store)
    after = await read_position(store, highest_level)
    if after.position.snapshot is not None:  # the level has risen: nodes may be older than the log from here on
        return None
    # The delta is laid over its nodes where they are not all written.
    newest = before.number - before.is_unwritten
    deltas = await read_deltas(store, newest, after.position.number, highest_level)
    if deltas is None:
        return None
    image = replayed(read.image, deltas)
    lost = _lost_topics(read, image, deltas)
    if lost and not deltas:
        raise StoreError(StoreErrorKind.CORRUPT, lost[0], "the node is missing, though others refer to it")
    if image.metadata_level >= SNAPSHOT_LEVEL:
        detail = f"the cluster's metadata has level {image.metadata_level}, and the log is not there"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, detail)
    return None if lost else Loaded(_placed(image, after.position), after)


async def _load_snapshot(store: Store, mark: SnapshotMark, highest_level: int) -> Loaded | None:
    """None where the position names another snapshot by now."""
    parts = await _read_parts(store, mark)
    after = await read_position(store, highest_level)
    try:
        image = await _image_at(store, parts, mark.number, after.position, highest_level)
    except _MissingError as error:
        # Nothing is removed before the position names another snapshot, so a reader that finds the same snapshot has
        # missed no race.
        if (await read_position(store, highest_level)).position.snapshot == mark:
            detail = "the node is missing, though the log needs it"
            raise StoreError(StoreErrorKind.CORRUPT, error.path, detail) from error
        return None
    return Loaded(image, after)


async def load_at(store: Store, position: LogPosition, highest_level: int = SUPPORTED.highest) -> MetadataImage:
    """Loads from the snapshot that this position names, whatever else is in the store. Raises StoreError(CORRUPT)."""
    assert position.snapshot is not None, "a position from before there were snapshots"
    try:
        parts = await _read_parts(store, position.snapshot)
        return await _image_at(store, parts, position.snapshot.number, position, highest_level)
    except _MissingError as error:
        raise StoreError(StoreErrorKind.CORRUPT, error.path, "the node is missing, though the log needs it") from error


class _MissingError(Exception):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


async def _read_parts(store: Store, mark: SnapshotMark) -> Mapping[str, Node | None]:
    """The first part has the cluster's id."""
    paths = [znodes.CLUSTER_ID, *(znodes.snapshot_part_path(mark.number, part) for part in range(mark.part_count))]
    return dict(zip(paths, await store.read_many(paths), strict=True))


async def _image_at(
    store: Store, read: Mapping[str, Node | None], number: int, position: LogPosition, highest_level: int
) -> MetadataImage:
    """The image of the parts and the deltas behind `number`."""
    deltas = await _read_log(store, number, position.number)
    (_, cluster_id), *parts = _present(read)
    empty = MetadataImage(znodes.decode_cluster_id(cluster_id))
    image = await asyncio.to_thread(_replay_snapshot, empty, parts, _present(deltas), highest_level)
    return _placed(image, position)


async def _read_log(store: Store, newest_known: int, newest: int) -> dict[str, Node | None]:
    paths = [znodes.delta_path(number) for number in range(newest_known + 1, newest + 1)]
    return dict(zip(paths, await store.read_many(paths), strict=True))


def _present(read: Mapping[str, Node | None]) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for path, node in read.items():
        if node is None:
            raise _MissingError(path)
        found.append((path, node.data))
    return found


def _replay_snapshot(
    empty: MetadataImage,
    parts: Sequence[tuple[str, bytes]],
    deltas: Sequence[tuple[str, bytes]],
    highest_level: int,
) -> MetadataImage:
    return replayed(empty, [*_decode_deltas(parts, highest_level), *_decode_log(deltas, highest_level)])


def _placed(image: MetadataImage, position: LogPosition) -> MetadataImage:
    return replace(
        image,
        number=position.number,
        controller_id=position.controller_id,
        controller_epoch=position.controller_epoch,
    )


async def read_position(store: Store, highest_level: int = SUPPORTED.highest) -> StoredPosition:
    node = await store.read(znodes.LOG)
    if node is None:
        return StoredPosition(LogPosition(), FIRST_VERSION)
    return StoredPosition(decode_position(node.data, highest_level), node.version)


async def read_deltas(
    store: Store, newest_known: int, newest: int, highest_level: int = SUPPORTED.highest
) -> list[Delta] | None:
    """The deltas after `newest_known`, up to `newest`. None if one of them is not kept any more."""
    try:
        present = _present(await _read_log(store, newest_known, newest))
    except _MissingError:
        return None
    if sum(len(data) for _, data in present) < _DECODED_IN_TURN:
        return _decode_log(present, highest_level)
    return await asyncio.to_thread(_decode_log, present, highest_level)


def _decode_deltas(nodes: Sequence[tuple[str, bytes]], highest_level: int) -> list[Delta]:
    return [decode_delta(path, data, highest_level) for path, data in nodes]


def _decode_log(nodes: Sequence[tuple[str, bytes]], highest_level: int) -> list[Delta]:
    deltas = _decode_deltas(nodes, highest_level)
    for (path, _), delta in zip(nodes, deltas, strict=True):
        if path != znodes.delta_path(delta.number):
            raise StoreError(StoreErrorKind.CORRUPT, path, f"the delta in it is number {delta.number}")
    return deltas


def replayed(image: MetadataImage, deltas: Sequence[Delta]) -> MetadataImage:
    """Raises StoreError(CORRUPT) when a delta cannot follow on the image."""
    replay = Replay(image)
    for delta in deltas:
        try:
            replay.follow(delta)
        except ValueError as error:
            detail = f"the delta does not follow on the one before: {error}"
            raise StoreError(StoreErrorKind.CORRUPT, znodes.delta_path(delta.number), detail) from error
    return replay.image


def _lost_topics(read: _Read, image: MetadataImage, deltas: Sequence[Delta]) -> list[str]:
    """Missing nodes of topics that were neither being deleted nor being created."""
    deleted = {topic.topic_id for delta in deltas for topic in delta.deleted}
    return [
        path
        for topic_id, path in read.missing.items()
        if topic_id not in deleted and topic_id not in image.topics_by_id
    ]


async def _read_nodes(store: Store) -> _Read:
    cluster_id, brokers, features = await store.read_many([znodes.CLUSTER_ID, znodes.BROKERS, znodes.FEATURES])
    if cluster_id is None:
        raise StoreError(StoreErrorKind.CORRUPT, znodes.CLUSTER_ID, "the node is missing, though others refer to it")
    present = znodes.decode_brokers(b"" if brokers is None else brokers.data)
    default_config, broker_configs = await _load_broker_configs(store)
    topics, missing = await _load_topics(store)
    image = MetadataImage(
        cluster_id=znodes.decode_cluster_id(cluster_id.data),
        brokers=present.here,
        topics=topics,
        broker_configs=broker_configs,
        default_broker_config=default_config,
        group_configs=await _load_group_configs(store),
        directories=present.directories,
        away=present.away,
        security=await _load_security(store),
        metadata_level=FIRST_LEVEL if features is None else znodes.decode_features(features.data),
    )
    return _Read(image, missing)


async def _load_broker_configs(store: Store) -> tuple[Settings, dict[int, Settings]]:
    present = await store.children(znodes.BROKER_CONFIGS)
    names = [name for name in present if name == znodes.DEFAULT_ENTITY or is_broker_name(name)]
    warn_of_ignored([f"{znodes.BROKER_CONFIGS}/{name}" for name in present if name not in names])
    paths = [f"{znodes.BROKER_CONFIGS}/{name}" for name in names]
    settings = await _load_settings(store, paths)
    by_name = dict(zip(names, settings, strict=True))
    default = by_name.pop(znodes.DEFAULT_ENTITY, MappingProxyType({}))
    return default, {int(name): value for name, value in by_name.items() if value}


async def _load_group_configs(store: Store) -> dict[str, Settings]:
    names = await store.children(znodes.GROUP_CONFIGS)
    settings = await _load_settings(store, [f"{znodes.GROUP_CONFIGS}/{name}" for name in names])
    return {znodes.group_of_config(name): value for name, value in zip(names, settings, strict=True) if value}


async def _load_security(store: Store) -> SecurityImage:
    """Takes one turn where there is nothing."""
    nodes = await walk(store, *security_nodes.ROOTS, has_children=security_nodes.may_have_children)
    if not nodes:
        return NO_SECURITY
    return security_nodes.decode_nodes({path: node.data for path, node in nodes.items()})


async def _load_settings(store: Store, paths: Sequence[str]) -> list[Settings]:
    nodes = await store.read_many(paths)
    return [
        MappingProxyType(znodes.decode_settings(path, node.data if node else b""))
        for path, node in zip(paths, nodes, strict=True)
    ]


async def _load_topics(store: Store) -> tuple[dict[str, TopicImage], dict[TopicId, str]]:
    """The topics with all nodes, and a missing node of each other topic. The states come in one read: a thousand topics
    in as many reads would be a thousand round trips.
    """
    names = await store.children(znodes.TOPICS)
    nodes = await store.read_many([znodes.topic_path(name) for name in names])
    # Deleted since their names were read: nothing refers to them.
    present = {name: node for name, node in zip(names, nodes, strict=True) if node is not None}
    foreign = await _foreign_topics(store, present)
    warn_of_ignored([znodes.topic_path(name) for name in foreign])
    present = {name: node for name, node in present.items() if name not in foreign}
    configs = await _load_settings(store, [znodes.topic_config_path(name) for name in present])
    assignments = {name: znodes.decode_topic(name, node.data) for name, node in present.items()}
    paths = {
        name: [znodes.partition_state_path(name, partition) for partition in range(len(assignment.replicas))]
        for name, assignment in assignments.items()
    }
    states = await store.read_many([path for each in paths.values() for path in each])
    # In a thread: a broker that missed many deltas loads while it serves, and each partition takes some 10 us.
    return await asyncio.to_thread(_build_topics, assignments, configs, paths, iter(states))


async def _foreign_topics(store: Store, nodes: Mapping[str, Node]) -> set[str]:
    """Topics that a tool created and not this cluster: the node is unreadable, and no controller has made partitions
    for it. With partitions it may be a damaged topic of ours.
    """
    unread = []
    for name, node in nodes.items():
        try:
            znodes.decode_topic(name, node.data)
        except StoreError:
            unread.append(name)
    partitions = await store.read_many([znodes.partitions_path(name) for name in unread]) if unread else []
    return {name for name, node in zip(unread, partitions, strict=True) if node is None}


def _build_topics(
    assignments: Mapping[str, znodes.TopicAssignment],
    configs: Sequence[Settings],
    paths: Mapping[str, Sequence[str]],
    states: Iterator[Node | None],
) -> tuple[dict[str, TopicImage], dict[TopicId, str]]:
    topics: dict[str, TopicImage] = {}
    missing: dict[TopicId, str] = {}
    for (name, assignment), settings in zip(assignments.items(), configs, strict=True):
        found: list[tuple[str, Node | None]] = [(path, next(states)) for path in paths[name]]
        lost = next((path for path, node in found if node is None), None)
        if lost is not None:
            missing[assignment.topic_id] = lost
            continue
        partitions = tuple(
            znodes.decode_partition_state(name, partition, assignment, node.data, node.version)
            for partition, (_, node) in enumerate(found)
            if node is not None
        )
        topics[name] = TopicImage(name, assignment.topic_id, partitions, settings)
    return topics, missing
