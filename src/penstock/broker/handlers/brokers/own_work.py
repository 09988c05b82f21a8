"""A request that went to the controller more than once, and whose last answer finds what an earlier sending has done.

The image of before the first sending, and the newest one, tell what was there already and what has come since.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.broker import Broker
from penstock.broker.handlers.topics import describe_created
from penstock.broker.session import RequestContext
from penstock.client.own_work import TopicThere, find_doubts, settle
from penstock.cluster.decisions.decision import CreateTopicResult
from penstock.cluster.image import MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import CreateTopicsResponse


async def recognise_own_work(
    broker: Broker, context: RequestContext, request: Message, response: Message, before: MetadataImage
) -> None:
    """Changes the response where its errors are the traces of our own work."""
    doubts = find_doubts(request, response)
    names = {doubt.topic for doubt in doubts if doubt.topic is not None}

    def is_known() -> bool:
        """The controller's image led to these errors; this broker's follows."""
        now = _topics(broker.metadata.image, names)
        return all(doubt.topic is None or doubt.is_met(now.get(doubt.topic)) for doubt in doubts)

    assert broker.forwarding is not None
    await broker.forwarding.learn(is_known)
    now = broker.metadata.image
    done = settle(doubts, _topics(now, names), _topics(before, names))
    if not isinstance(response, CreateTopicsResponse):
        return
    made = {doubt.topic for doubt in done}
    rows, response.topics = response.topics, []
    async for row in broker.slices.each(rows):
        topic = now.topics.get(row.name) if row.name in made else None
        result = CreateTopicResult(row.name, ErrorCode.NONE, None, topic)
        response.topics.append(row if topic is None else describe_created(broker, context, result))


def _topics(image: MetadataImage, names: Iterable[str]) -> dict[str, TopicThere]:
    return {
        name: TopicThere(topic.topic_id, [state.replicas for state in topic.partitions], topic.configs)
        for name in names
        if (topic := image.topics.get(name)) is not None
    }
