"""Lists the changelogs of an application, and how long their brokers keep deletions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from penstock.admin.queries.configs import configs_requests, read_settings
from penstock.admin.queries.topics import read_topic
from penstock.admin.state.configs import ConfigPlace
from penstock.admin.state.partitions import TopicState
from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError
from penstock.streams.stores.followed_store import RETENTION_MS

_RETENTION: Final = "delete.retention.ms"


class Listed(NamedTuple):
    cluster: str
    changelogs: Mapping[str, TopicState]  # by store


async def find_changelogs(brokers: Brokers, store_of: Callable[[str], str | None]) -> Listed:
    """Raises OSError and ApiError."""
    answer = await brokers.metadata(None)
    changelogs: dict[str, TopicState] = {}
    for topic in answer.topics:
        name = store_of(topic.name or "")
        if name is not None and topic.partitions:
            changelogs[name] = read_topic(topic)
    return Listed(answer.cluster_id or "unknown", changelogs)


async def read_retention(brokers: Brokers, topic: str) -> int:
    """Kafka's default where the right to ask is missing. Raises OSError."""
    place = ConfigPlace.topic(topic)
    (request,) = configs_requests([place], [_RETENTION])
    try:
        found = read_settings(await brokers.ask(request, retry=True)).found
    except ApiError:
        return RETENTION_MS
    setting = found.get(place, {}).get(_RETENTION)
    return int(setting.value) if setting is not None and setting.value else RETENTION_MS
