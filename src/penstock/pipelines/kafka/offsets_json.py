"""Offsets of partitions as checkpoints, options and Spark's progress reports write them. Pure.

{"topic":{"0":23,"1":42}}, exactly as Spark's own Kafka connector writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from penstock.core.types import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
OffsetsJson: TypeAlias = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    nested: OffsetsJson = {}
    for partition in sorted(offsets):
        nested.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return nested


def from_json(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def read_reported(reported: Any) -> Offsets:
    """Offsets from Spark's report of a source, as text or as an object. Empty before the first batch, and for a source
    that is no topic."""
    try:
        nested = json.loads(reported) if isinstance(reported, str) else reported
        return from_json(nested) if isinstance(nested, dict) else {}
    except (AttributeError, TypeError, ValueError):
        return {}
