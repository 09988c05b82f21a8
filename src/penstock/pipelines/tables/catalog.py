"""The tables of a cluster: which topics there are, and what columns each has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Self

from penstock.core.types import TopicPartition
from penstock.pipelines.source.splitting import OffsetRange
from penstock.pipelines.tables.connection import Connection
from penstock.pipelines.tables.table import Table


class Catalog:
    """Tables are kept for some seconds. For several threads. Every method raises TableError."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError

    def topics(self, *, is_internal_wanted: bool = False) -> list[str]:
        """Sorted. Internal ones, those that begin with `__`, and `_schemas` are left out unless wanted."""
        raise NotImplementedError

    def table(self, name: str) -> Table:
        """`name` is a topic, or `<topic>$latest`. Case counts, unless only one topic has the name in other case."""
        raise NotImplementedError

    def ranges(self, topics: Collection[str]) -> list[OffsetRange]:
        """What each partition of the topics holds now: from its first offset to its end (of what is committed)."""
        raise NotImplementedError

    def offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset with that timestamp or a later one; None where there is none."""
        raise NotImplementedError

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Such as message.timestamp.type. Empty where the broker does not allow to see it."""
        raise NotImplementedError
