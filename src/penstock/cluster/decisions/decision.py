"""The types of the controller's decisions: their inputs and results."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from penstock.cluster.image import MetadataImage, TopicImage
from penstock.core.types import ZERO_TOPIC_ID, TopicId
from penstock.protocol.errors import ErrorCode

Item = TypeVar("Item")


class Decision(NamedTuple, Generic[Item]):
    """The answer for each item of a request, and the image afterwards: the same object where nothing changes."""

    results: tuple[Item, ...]
    image: MetadataImage


class NewTopic(NamedTuple):
    """-1 asks for the broker's default. Assignments are (partition, replicas) pairs; settings may hold a null."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopicResult(NamedTuple):
    name: str
    code: ErrorCode
    message: str | None
    # The created topic, or the topic that a request without `validate_only` would have created.
    topic: TopicImage | None = None


class TopicSelector(NamedTuple):
    """A topic by name or by id, as in the request."""

    name: str | None
    topic_id: TopicId = ZERO_TOPIC_ID


class DeleteTopicResult(NamedTuple):
    name: str | None
    topic_id: TopicId
    code: ErrorCode
    message: str | None


class NewPartitions(NamedTuple):
    """The number of partitions afterwards, and the replicas of the new partitions, or None."""

    name: str
    partition_count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitionsResult(NamedTuple):
    name: str
    code: ErrorCode
    message: str | None


class RequestedChange(NamedTuple):
    """One key of IncrementalAlterConfigs as it came in: the operation may be an undefined number."""

    name: str
    operation: int
    value: str | None


class IncrementalChange(NamedTuple):
    resource_type: int
    resource_name: str
    changes: tuple[RequestedChange, ...]


class FullChange(NamedTuple):
    """AlterConfigs: a key that is not in `settings` returns to its default."""

    resource_type: int
    resource_name: str
    settings: tuple[tuple[str, str | None], ...]


class AlterConfigsResult(NamedTuple):
    resource_type: int
    resource_name: str
    code: ErrorCode
    message: str | None
