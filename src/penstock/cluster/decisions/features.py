"""The controller's decision about the features of the cluster (UpdateFeatures, KIP-584).

One feature has a level that changes: the metadata's. The rules are those of Kafka's controller for `metadata.version`:

- The level rises only to one that the controller and all brokers know. A broker that has replicas and is not here may
  be an old one, which could not come back: it counts as a broker that does not know the level.
- The level never falls: an older version could not read the log.
- One refused update refuses all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.image import MetadataImage
from penstock.cluster.levels import FEATURE, LevelRange
from penstock.protocol.errors import ApiError, ErrorCode

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    upgrade_type: int = UPGRADE


class Knowledge(NamedTuple):
    """The controller's own knowledge: its id, its levels of the metadata, and features whose level never changes."""

    node_id: int
    levels: LevelRange
    fixed: Mapping[str, int]


def decide_update_features(
    image: MetadataImage, controller: Knowledge, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
) -> Decision[None]:
    """Raises ApiError(INVALID_UPDATE_VERSION) for the first update that cannot be made."""
    level = image.metadata_level
    for update in updates:
        reason = _why_not(image, controller, update)
        if reason is not None:
            message = f"Invalid update version {update.level} for feature {update.name}. {reason}"
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, message)
        if update.name == FEATURE:
            level = update.level
    if validate_only or level == image.metadata_level:
        return Decision((), image)
    return Decision((), replace(image, metadata_level=level))


def _why_not(image: MetadataImage, controller: Knowledge, update: FeatureUpdate) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if update.name in controller.fixed:
        level = controller.fixed[update.name]
        return None if update.level == level else f"This feature is at version {level} in every cluster."
    if update.name != FEATURE:
        return f"Local controller {controller.node_id} does not support this feature."
    if not controller.levels.has(update.level):
        return f"Local controller {controller.node_id} only supports versions {_range(controller.levels)}"
    return _why_brokers_do_not(image, update.level) or _why_no_step(image.metadata_level, update)


def _why_no_step(current: int, update: FeatureUpdate) -> str | None:
    if update.level < current and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if update.level < current:
        return "Refusing to perform the requested downgrade because it might delete metadata information."
    return None


def _why_brokers_do_not(image: MetadataImage, level: int) -> str | None:
    for node_id, broker in image.brokers.items():
        if not broker.levels.has(level):
            return f"Broker {node_id} only supports versions {_range(broker.levels)}"
    missing = {
        node_id
        for topic in image.topics.values()
        for state in topic.partitions
        for node_id in state.replicas
        if node_id not in image.brokers
    }
    if missing and level != image.metadata_level:
        return (
            f"Broker {min(missing)} has replicas and is not here, so nobody knows which versions it supports: start "
            "it, or move its replicas to other brokers."
        )
    return None


def _range(levels: LevelRange) -> str:
    return f"{levels.lowest}-{levels.highest}"
