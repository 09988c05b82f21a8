"""The level of the metadata: when it may rise, and a cluster that is updated broker by broker."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.decisions.features import (
    SAFE_DOWNGRADE,
    FeatureUpdate,
    Knowledge,
    decide_update_features,
)
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.levels import FEATURE, LevelRange
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryTree
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.brokers import TestBroker, agreed, controller
from tests.unit.cluster.harness import cluster, run

OLD, NEW = LevelRange(1, 1), LevelRange(1, 2)
CONTROLLER = Knowledge(1, NEW, {"group.version": 1})


def updated(image: MetadataImage) -> MetadataImage:
    brokers = {broker.node_id: broker._replace(levels=NEW) for broker in image.brokers.values()}
    return replace(image, brokers=brokers)


def raise_level(image: MetadataImage, *updates: FeatureUpdate, validate_only: bool = False) -> MetadataImage:
    return decide_update_features(image, CONTROLLER, updates, validate_only=validate_only).image


def refusal(image: MetadataImage, update: FeatureUpdate) -> str:
    with pytest.raises(ApiError) as error:
        raise_level(image, FeatureUpdate("group.version", 1), update)
    assert error.value.code is ErrorCode.INVALID_UPDATE_VERSION
    return str(error.value.message)


def test_level_rises_when_all_brokers_know_it() -> None:
    image = updated(cluster(1, 2, 3))
    assert raise_level(image, FeatureUpdate(FEATURE, 2), validate_only=True) is image
    assert raise_level(image, FeatureUpdate(FEATURE, 2)).metadata_level == 2
    assert raise_level(image, FeatureUpdate(FEATURE, 1)) is image


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (FeatureUpdate("nothing", 1), "Local controller 1 does not support this feature."),
        (FeatureUpdate(FEATURE, 3), "Local controller 1 only supports versions 1-2"),
        (FeatureUpdate(FEATURE, -1), "A feature version cannot be less than 0."),
        (FeatureUpdate(FEATURE, 2, 9), "does not support the given upgrade type"),
        (FeatureUpdate(FEATURE, 2, SAFE_DOWNGRADE), "Can't downgrade to a newer version."),
        (FeatureUpdate("group.version", 0), "This feature is at version 1 in every cluster."),
    ],
)
def test_nothing_is_raised_when_one_of_the_updates_makes_no_sense(update: FeatureUpdate, said: str) -> None:
    assert said in refusal(updated(cluster(1, 2)), update)


def test_level_stays_when_a_broker_does_not_know_the_next_one_or_is_not_here() -> None:
    image = updated(cluster(1, 2))
    old = replace(image, brokers={**image.brokers, 2: image.brokers[2]._replace(levels=OLD)})
    assert "Broker 2 only supports versions 1-1" in refusal(old, FeatureUpdate(FEATURE, 2))
    away = image.with_topics({"t": TopicImage("t", b"t" * 16, (PartitionState(0, (1, 5), (1,), 1),))})
    assert "Broker 5 has replicas and is not here" in refusal(away, FeatureUpdate(FEATURE, 2))


def test_level_never_falls_when_somebody_asks_for_it() -> None:
    image = replace(updated(cluster(1)), metadata_level=2)
    assert "Can't downgrade the version" in refusal(image, FeatureUpdate(FEATURE, 1))
    assert "Refusing to perform" in refusal(image, FeatureUpdate(FEATURE, 1, SAFE_DOWNGRADE))


async def format_of_newest(broker: TestBroker) -> tuple[int, int]:
    """Of the newest delta, and of the log's position."""
    delta, log = await broker.store.read_many([znodes.delta_path(broker.metadata.image.number), znodes.LOG])
    assert delta is not None
    assert log is not None
    return json.loads(zlib.decompress(delta.data))["format"], json.loads(log.data)["format"]


def test_level_rises_only_at_the_end_when_a_cluster_is_updated_broker_by_broker() -> None:
    async def main() -> None:
        tree = MemoryTree()
        brokers = [await TestBroker(tree, node_id, levels=OLD).start() for node_id in (1, 2, 3)]
        for place, node_id in enumerate((1, 2, 3)):
            await brokers[place].stop()
            brokers[place] = await TestBroker(tree, node_id, levels=NEW).start()
            await agreed(*brokers)
            leader = controller(*brokers)
            await leader.metadata.create_topics([NewTopic(f"after-{node_id}", 1, 3)])
            await agreed(*brokers)
            assert await format_of_newest(leader) == (1, 1), "the brokers that are left must read it"
            if node_id < 3:
                with pytest.raises(ApiError, match="only supports versions 1-1"):
                    await leader.metadata.update_features([FeatureUpdate(FEATURE, 2)], {})
        leader = controller(*brokers)
        await leader.metadata.update_features([FeatureUpdate(FEATURE, 2)], {}, validate_only=True)
        assert leader.metadata.image.metadata_level == 1
        await leader.metadata.update_features([FeatureUpdate(FEATURE, 2)], {})
        await agreed(*brokers)
        assert {each.metadata.image.metadata_level for each in brokers} == {2}
        assert await format_of_newest(leader) == (2, 2)
        node = await leader.store.read(znodes.FEATURES)
        assert node is not None
        assert json.loads(node.data)["features"] == {FEATURE: {"max_version_level": 2}}
        for broker in brokers:
            await broker.stop()
        with pytest.raises(StoreError, match=r"format 2, .* reads format 1: update this broker"):
            await TestBroker(tree, 1, levels=OLD).start()
        again = await TestBroker(tree, 1, levels=NEW).start()
        assert again.metadata.image.metadata_level == 2
        await again.stop()

    run(main())


def test_new_cluster_begins_with_the_highest_level_when_there_is_nothing_to_be_read_by_others() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first = await TestBroker(tree, 1, levels=NEW).start()
        assert first.metadata.image.metadata_level == 2
        with pytest.raises(StoreError, match="update this broker"):
            await TestBroker(tree, 2, levels=OLD).start()
        await first.stop()

    run(main())


def test_level_is_to_be_raised_first_when_a_version_does_not_know_the_old_one_any_more() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first = await TestBroker(tree, 1, levels=OLD).start()
        with pytest.raises(StoreError, match="penstock cluster upgrade"):
            await TestBroker(tree, 2, levels=LevelRange(2, 3)).start()
        await first.stop()

    run(main())
