"""Whatever the largest of a change is: it is refused before anything is written, or all of it is written. What is
written fits a snapshot, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.cluster.controller.snapshots import write_snapshot
from penstock.cluster.controller.writer import Writer
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.image_loader import load, load_image
from penstock.cluster.levels import SECURITY_LEVEL, SNAPSHOT_LEVEL
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind, TransactionLimit
from penstock.cluster.store.memory import MemoryStore
from penstock.core.limits import (
    MAX_STORE_TRANSACTION_BYTES,
    MAX_STORE_TRANSACTION_OPERATIONS,
    MAX_STORE_VALUE_BYTES,
)
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.properties.test_metadata_snapshots import FENCE, founded
from tests.unit.cluster.harness import broker
from tests.unit.cluster.images import NODES

LIMIT = TransactionLimit(MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS)
PIECE = 10_000


class Grow(Protocol):
    def __call__(self, image: MetadataImage, texts: list[str]) -> MetadataImage: ...


class Text(Enum):
    ALIKE = "compresses well"
    DENSE = "hardly compresses"
    WIDE = "has six bytes in a document for each character, of which two are left when it is compressed"


class Growth(NamedTuple):
    grow: Grow
    size: int
    text: Text


def _texts(size: int, kind: Text) -> list[str]:
    """Pieces of `size` bytes of a document together."""
    random, piece = Random(size), PIECE
    if kind is Text.WIDE:
        size, piece = size // 6, piece // 6
        text = "".join(map(chr, random.choices(range(0x4E00, 0x9FFF), k=size)))
    else:
        text = random.randbytes(size // 2 + 1).hex() if kind is Text.DENSE else "x" * size
    return [text[start : start + piece] for start in range(0, size, piece)]


def _acls(image: MetadataImage, texts: list[str]) -> MetadataImage:
    resource = ResourcePattern(ResourceType.TOPIC, "a", PatternType.LITERAL)
    names = (f"User:{number}-{text}" for number, text in enumerate(texts))
    rules = tuple(AclEntry(name, "*", Operation.READ, Permission.ALLOW) for name in names)
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


def _policies(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return replace(
        image, security=SecurityImage(policies={f"p{number}": {"x": text} for number, text in enumerate(texts)})
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
    return image.with_topics({"b": TopicImage("b", b"b" * 16, states)})


def _brokers(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return replace(image, brokers={number: broker(number, rack=text) for number, text in enumerate(texts)})


def _brokers_away(image: MetadataImage, texts: list[str]) -> MetadataImage:
    return replace(image, away=_brokers(image, texts).brokers)


def _settings_of_brokers(image: MetadataImage, texts: list[str]) -> MetadataImage:
    settings = {node_id: _configs(texts[index :: len(NODES)]) for index, node_id in enumerate(NODES)}
    return replace(image, broker_configs={node_id: each for node_id, each in settings.items() if each})


def _settings_of_one_broker(image: MetadataImage, texts: list[str]) -> MetadataImage:
    settings = _configs(texts)
    return replace(image, broker_configs={1: settings} if settings else {})


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
    _policies,
    _topic,
    _topic_settings,
    _moved,
    _created,
    _brokers,
    _brokers_away,
    _settings_of_brokers,
    _settings_of_one_broker,
    _groups,
    _defaults,
]
SIZES = st.one_of(
    st.integers(MAX_STORE_VALUE_BYTES - 30_000, MAX_STORE_VALUE_BYTES + 5_000),
    st.integers(MAX_STORE_TRANSACTION_BYTES - 30_000, MAX_STORE_TRANSACTION_BYTES + 5_000),
    st.integers(0, 2 * MAX_STORE_VALUE_BYTES),
)


GROWTHS = st.lists(
    st.builds(Growth, st.sampled_from(KINDS), SIZES, st.sampled_from(Text)),
    min_size=1,
    max_size=2,
    unique_by=lambda growth: KINDS.index(growth.grow),
)


async def _write(store: MemoryStore, grow: Callable[[MetadataImage], MetadataImage]) -> bool:
    """Whether the change was accepted; it is in the store then, and a snapshot has it."""
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
    if image.metadata_level >= SNAPSHOT_LEVEL:
        mark = await write_snapshot(store, FENCE, image, writer.position.snapshot)
        parts = await store.read_many([znodes.snapshot_part_path(mark.number, part) for part in range(mark.part_count)])
        assert all(part is not None and len(part.data) < LIMIT.size for part in parts), "each fits a transaction"
        writer.offer_snapshot(mark, writer.position.size)
        (change,) = writer.plan(image, replace(image, default_broker_config={"snapshot": str(image.number)}))
        await writer.write(change)
        assert await load_image(store) == change.image
    return True


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([SECURITY_LEVEL, SNAPSHOT_LEVEL]), GROWTHS)
@example(SECURITY_LEVEL, [Growth(_acls, MAX_STORE_VALUE_BYTES - 10_000, Text.ALIKE)])
@example(SECURITY_LEVEL, [Growth(_moved, MAX_STORE_VALUE_BYTES - 10_000, Text.ALIKE)])
@example(SECURITY_LEVEL, [Growth(_brokers, MAX_STORE_VALUE_BYTES - 10_000, Text.ALIKE)])
@example(SNAPSHOT_LEVEL, [Growth(_acls, 4 * MAX_STORE_VALUE_BYTES, Text.WIDE)])
@example(SNAPSHOT_LEVEL, [Growth(_brokers, 700_000, Text.DENSE), Growth(_brokers_away, 700_000, Text.DENSE)])
@example(SNAPSHOT_LEVEL, [Growth(_moved, 1_000_000, Text.WIDE), Growth(_topic_settings, 830_000, Text.DENSE)])
def test_change_is_refused_or_written_whole_when_it_is_large(level: int, growths: Sequence[Growth]) -> None:
    async def main() -> None:
        store = await founded(level, LIMIT)
        given_topic = TopicImage("given", b"g" * 16, (PartitionState(0, (1,), (1,), 1),))
        assert await _write(store, lambda image: image.with_topics({"given": given_topic}))
        before = await load_image(store)
        for grow, size, text in growths:
            is_accepted = await _write(store, partial(grow, texts=_texts(size, text)))
            assert is_accepted or size > MAX_STORE_TRANSACTION_BYTES - 100_000, "small changes are accepted"
        # Whatever came of it, the next change is made, and the large one can be taken back.
        assert await _write(store, lambda image: replace(image, default_broker_config={"x": "1"}))
        if all(each.grow is not _moved for each in growths):  # a topic never loses partitions
            assert await _write(store, lambda image: replace(before, number=image.number))

    asyncio.run(main())
