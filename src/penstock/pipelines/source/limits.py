"""How far a micro-batch goes, by maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 900_000


def count_waiting(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """Offsets between; a partition that went backwards counts as none."""
    return sum(max(0, end - start[partition]) for partition, end in latest.items())


def should_wait(limits: TriggerLimits, waiting: int, since_last_batch_ms: float) -> bool:
    """Whether there is too little for a batch yet."""
    if limits.min_offsets is None or since_last_batch_ms >= limits.max_delay_ms:
        return False
    return waiting < limits.min_offsets


def limit_end(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], most: int) -> Offsets:
    """At most about `most` offsets beyond `start`, each partition in proportion to what it has waiting.

    A small partition is not starved: every partition with something waiting advances by one at least, so the sum may
    exceed `most` by the number of such partitions. `start` holds every partition of `latest`.
    """
    total = count_waiting(start, latest)
    if total <= most:
        return dict(latest)
    limited: Offsets = {}
    for partition, end in latest.items():
        size = end - start[partition]
        share = most * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(end, start[partition] + step) if size > 0 else end
    return limited
