"""The features that clients are told of (ApiVersions, KIP-584): which levels are known and which is in force.

Those in this table are at their highest level from the first start on: nothing of them depends on data of an older
release. The level of the metadata, which does, is the cluster's (`cluster.levels`).
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    name: str
    min_level: int
    max_level: int
    level: int  # in force


FEATURES: tuple[Feature, ...] = (
    # 1: the consumer group protocol of KIP-848.
    Feature("group.version", 0, 1, 1),
    # 2: partitions are added to a transaction by writing to them, and every transaction has a producer epoch of its
    # own (KIP-890).
    Feature("transaction.version", 0, 2, 2),
)
