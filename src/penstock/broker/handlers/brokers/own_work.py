"""Recognises our own change behind an error: a broker sent a request to the controller more than once, an earlier
sending made the change, and the last answer reports that the change exists.

The image from before the first sending and the newest image show which resources existed before and which are new.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from penstock.broker.handlers.topics import DescribedTopicPort, describe_created
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices
from penstock.client.own_work import TopicThere, find_doubts, settle
from penstock.cluster.decisions.decision import CreateTopicResult
from penstock.cluster.image import MetadataImage
from penstock.cluster.metadata import Metadata
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import CreateTopicsResponse

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.forwarding.forwarder import Forwarding


class OwnWorkPort(DescribedTopicPort, Protocol):
    """The parts of the broker that show whether an earlier sending made a change."""

    forwarding: Forwarding | None
    metadata: Metadata
    slices: Slices


async def recognise_own_work(
    broker: OwnWorkPort, context: RequestContext, request: Message, response: Message, before: MetadataImage
) -> None:
    """Corrects the response where an earlier sending of the same request caused its errors."""
    doubts = find_doubts(request, response)
    names = {doubt.topic for doubt in doubts if doubt.topic is not None}

    def is_known() -> bool:
        """Whether this broker's image has caught up with the controller's image that led to these errors."""
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
