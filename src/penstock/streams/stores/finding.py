"""Which changelogs an application has, and how long their brokers keep deletions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.streams.stores.followed import RETENTION_MS

_TOPIC_RESOURCE: Final = 2
_RETENTION: Final = "delete.retention.ms"


class Found(NamedTuple):
    topic_id: bytes
    leaders: Mapping[int, int]  # by partition; -1: none


class Listed(NamedTuple):
    cluster: str
    changelogs: Mapping[str, Found]  # by store


async def find_changelogs(brokers: Brokers, store_of: Callable[[str], str | None]) -> Listed:
    """Raises OSError and ApiError."""
    answer = await brokers.metadata(None)
    changelogs: dict[str, Found] = {}
    for topic in answer.topics:
        name = store_of(topic.name or "")
        if name is not None and topic.partitions:
            leaders = {each.partition_index: each.leader_id for each in topic.partitions}
            changelogs[name] = Found(topic.topic_id, leaders)
    return Listed(answer.cluster_id or "unknown", changelogs)


async def read_retention(brokers: Brokers, topic: str) -> int:
    """Kafka's default where the right to ask is missing. Raises OSError."""
    resource = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[_RETENTION]
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    try:
        answer: Any = await brokers.ask(request, retry=True)
    except ApiError:
        return RETENTION_MS
    told = (each.value for result in answer.results for each in result.configs or () if each.name == _RETENTION)
    value = next(told, None)
    return int(value) if value else RETENTION_MS
