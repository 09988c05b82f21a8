"""Topics that come into being because somebody uses them: auto-created ones and our own internal ones."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.decisions.internal_topics import internal_topic, is_created_on_demand
from penstock.cluster.metadata import Metadata
from penstock.protocol.errors import ErrorCode


class TopicCreation:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    async def create(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """Errors by name; a topic that somebody else created meanwhile is no error."""
        results = await self._metadata.create_topics([self._plan(name) for name in names])
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
