"""Topics that come into being because somebody uses them: auto-created ones and our own internal ones.

Also topics that the program around the broker wants, for a test or a notebook: no request, no client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cluster.decisions.decision import CreateTopicResult, NewTopic, TopicSelector
from penstock.cluster.decisions.internal_topics import internal_topic, is_created_on_demand
from penstock.cluster.metadata import Metadata, answer_each
from penstock.protocol.errors import ApiError, ErrorCode


class TopicCreation:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    async def create(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """Errors by name; a topic that somebody else created meanwhile is no error."""
        results = await answer_each(
            self._metadata.create_topics([self._plan(name) for name in names]),
            lambda code, message: (CreateTopicResult(name, code, message) for name in names),
        )
        errors = {result.name: result.code for result in results}
        return {
            name: ErrorCode.NONE if error is ErrorCode.TOPIC_ALREADY_EXISTS else error for name, error in errors.items()
        }

    async def ensure(self, name: str) -> None:
        """Creates the topic if it is not there; whoever needs it looks for it afterwards."""
        if name not in self._metadata.image.topics:
            await self.create([name])

    def _plan(self, name: str) -> NewTopic:
        if is_created_on_demand(name):
            return internal_topic(name, self._metadata.config, len(self._metadata.image.brokers))
        return NewTopic(name)


async def create_topic(metadata: Metadata, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Raises ApiError, also where the topic exists."""
    (result,) = await metadata.create_topics([NewTopic(name, partitions, -1, (), tuple(configs.items()))])
    if result.code:
        raise ApiError(result.code, result.message)


async def delete_topic(metadata: Metadata, name: str) -> None:
    """Raises ApiError, but not where there is no such topic."""
    (result,) = await metadata.delete_topics([TopicSelector(name)])
    if result.code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise ApiError(result.code, result.message)
