"""The features in the ApiVersions answer (KIP-584): their known levels and the levels in force.

The features in this table have their highest level from the first start on: none of them depends on data of an older
release. The level of the metadata does; the cluster keeps it (`cluster.levels`).
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
    # 2: a write to a partition adds the partition to the transaction, and every transaction has a producer epoch of its
    # own (KIP-890).
    Feature("transaction.version", 0, 2, 2),
)
