"""Deletes what a repartition topic's only reader can never ask for again."""

from __future__ import annotations

from collections.abc import Mapping

PURGE_EVERY_S = 30.0  # as repartition.purge.interval.ms of Kafka Streams


def purge_offsets(checkpoint: str, topics: frozenset[str]) -> Mapping[tuple[str, int], int]:
    """By topic and partition: where the last finished batch of the query with this checkpoint began."""
    raise NotImplementedError
