"""Whatever the largest of a change is: it is refused before anything is written, or all of it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.cluster.controller.writer import Writer
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.levels import SECURITY_LEVEL
from penstock.cluster.loading import load, load_image
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, StoreError, StoreErrorKind, TransactionLimit
from penstock.cluster.store.memory import MemoryStore
from penstock.core.limits import (
    MAX_STORE_TRANSACTION_BYTES,
    MAX_STORE_TRANSACTION_OPERATIONS,
    MAX_STORE_VALUE_BYTES,
)
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.unit.cluster.harness import broker

LIMIT = TransactionLimit(MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS)
FENCE = Check(znodes.CONTROLLER_EPOCH, 0)
PIECE = 10_000

Grow = Callable[[MetadataImage, list[str]], MetadataImage]


def _texts(size: int, *, is_dense: bool) -> list[str]:
    """Pieces of `size` characters together, which compress well or hardly."""
    text = Random(size).randbytes(size // 2 + 1).hex() if is_dense else "x" * size
    return [text[start : start + PIECE] for start in range(0, size, PIECE)]


def _acls(image: MetadataImage, texts: list[str]) -> MetadataImage:
    resource = ResourcePattern(ResourceType.TOPIC, "a", PatternType.LITERAL)
    rules = tuple(AclEntry(f"User:{each}", "*", Operation.READ, Permission.ALLOW) for each in texts)
    return replace(image, security=SecurityImage(acls={resource: rules} if rules else {}))


def _acls_of_many(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return replace(
        image,
        security=SecurityImage(
            acls={
                ResourcePattern(ResourceType.TOPIC, f"t{number}", PatternType.PREFIXED): (
                    AclEntry(f"User:{text}", "*", Operation.READ, Permission.ALLOW),
                )
                for number, text in enumerate(texts)
            }
        ),
    )


def _configs(texts: list[str]) -> dict[str, str]:
    return {f"key{number}": text for number, text in enumerate(texts)}


def _entities(image: MetadataImage, texts: list[str]) -> MetadataImage:
    settings = _configs(texts)
    return replace(image, security=SecurityImage(entity_configs={"users/a": settings} if settings else {}))


def _tokens(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return replace(
        image, security=SecurityImage(tokens={f"t{number}": {"x": text} for number, text in enumerate(texts)})
    )


def _topic(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return image.with_topics({"a": TopicImage("a", b"a" * 16, (PartitionState(0, (1,), (1,), 1),), _configs(texts))})


def _topic_settings(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return image.with_topics({"given": image.topics["given"]._replace(configs=_configs(texts))})


def _nodes(text: str) -> tuple[int, ...]:
    return tuple(1_000_000_000 + ord(character) for character in text[:: len("1000000001,")])


def _moved(image: MetadataImage, texts: list[str]) -> MetadataImage:
    """The replicas of a topic that is there, and new partitions of it."""
    given, first = image.topics["given"], image.topics["given"].partitions[0]
    nodes = [_nodes(text) for text in texts]
    moved = first._replace(replicas=nodes[0] if nodes else (1,), partition_epoch=first.partition_epoch + 1)
    added = (PartitionState(number, each, (1,), 1) for number, each in enumerate(nodes[1:], 1))
    return image.with_topics({"given": given._replace(partitions=(moved, *added))})


def _created(image: MetadataImage, texts: list[str]) -> MetadataImage:
    states = tuple(PartitionState(number, _nodes(text), (1,), 1) for number, text in enumerate(texts))
    return image.with_topics({"a": TopicImage("a", b"a" * 16, states)})


def _brokers(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return replace(image, brokers={number: broker(number, rack=text) for number, text in enumerate(texts)})


def _groups(image: MetadataImage, texts: list[str]) -> MetadataImage:
    settings = _configs(texts)
    return replace(image, group_configs={"g": settings} if settings else {})


def _defaults(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return replace(image, default_broker_config=_configs(texts))


KINDS: list[Grow] = [
    _acls,
    _acls_of_many,
    _entities,
    _tokens,
    _topic,
    _topic_settings,
    _moved,
    _created,
    _brokers,
    _groups,
    _defaults,
]
SIZES = st.one_of(
    st.integers(MAX_STORE_VALUE_BYTES - 30_000, MAX_STORE_VALUE_BYTES + 5_000),
    st.integers(MAX_STORE_TRANSACTION_BYTES - 30_000, MAX_STORE_TRANSACTION_BYTES + 5_000),
    st.integers(0, 2 * MAX_STORE_VALUE_BYTES),
)


async def _founded() -> MemoryStore:
    store = MemoryStore(transaction_limit=LIMIT)
    for path in (*znodes.PERSISTENT_PATHS, znodes.broker_config_path(None)):
        await store.ensure_path(path)
    await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id("cluster"))
    await store.create(znodes.CONTROLLER_EPOCH, b"0")
    await store.create(znodes.FEATURES, znodes.encode_features(SECURITY_LEVEL))
    return store


async def _write(store: MemoryStore, grow: Callable[[MetadataImage], MetadataImage]) -> bool:
    """Whether the change was accepted; it is in the store then."""
    image, stored = await load(store)
    writer = Writer(store, FENCE, stored, lambda: "an-id")
    try:
        changes = writer.plan(image, grow(image))
    except StoreError as error:
        if error.kind is StoreErrorKind.TOO_LARGE and "are the most" in str(error):
            return False
        raise
    for change in changes:
        await writer.write(change)
        await writer.write_nodes(change.image)
        image = change.image
    loaded = await load(store)
    assert loaded.image == image
    assert not loaded.stored.position.is_unwritten
    return True


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), SIZES, st.booleans())
@example(_acls, MAX_STORE_VALUE_BYTES - 10_000, False)
@example(_moved, MAX_STORE_VALUE_BYTES - 10_000, False)
@example(_brokers, MAX_STORE_VALUE_BYTES - 10_000, False)
def test_change_is_refused_or_written_whole_when_it_is_large(grow: Grow, size: int, is_dense: bool) -> None:
    async def main() -> None:
        store = await _founded()
        given_topic = TopicImage("given", b"g" * 16, (PartitionState(0, (1,), (1,), 1),))
        assert await _write(store, lambda image: image.with_topics({"given": given_topic}))
        before = await load_image(store)
        texts = _texts(size, is_dense=is_dense)
        is_accepted = await _write(store, lambda image: grow(image, texts))
        assert is_accepted or size > MAX_STORE_TRANSACTION_BYTES - 100_000, "small changes are accepted"
        # Whatever came of it, the next change is made, and the large one can be taken back.
        assert await _write(store, lambda image: replace(image, default_broker_config={"x": "1"}))
        if grow is not _moved:  # a topic never loses partitions
            assert await _write(store, lambda image: replace(before, number=image.number))

    asyncio.run(main())
