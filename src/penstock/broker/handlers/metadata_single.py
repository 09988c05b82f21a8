"""The shortcut for a metadata request about one topic that exists: a ready answer with the request's correlation id.

For an unusual request the shortcut returns None, and `metadata` answers. `metadata` also makes the kept answers.
"""

from __future__ import annotations

import struct
from typing import Protocol

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.handlers.metadata import metadata_now
from penstock.broker.handlers.metadata_port import MetadataPort
from penstock.broker.metadata_answers import Key, MetadataAnswers, ReadyAnswer
from penstock.broker.session import RequestContext
from penstock.cluster.image import MetadataImage
from penstock.protocol.codec import encode
from penstock.protocol.framing import encode_response_header
from penstock.protocol.message import Buffer
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.single_metadata import parse_single_metadata

_SIZE = struct.Struct(">i")
_DESCRIBE, _TOPIC = Operation.DESCRIBE, ResourceType.TOPIC  # a lookup of an enum's member costs a call


class SingleMetadataPort(MetadataPort, Protocol):
    """The parts of the broker that the shortcut uses."""

    metadata_answers: MetadataAnswers


def metadata_single(
    broker: SingleMetadataPort, context: RequestContext, frame: Buffer, position: int, correlation_id: int
) -> bytearray | None:
    """Answers for one topic, by its name, from version 10 on, unless the state of the other brokers is in doubt.

    Costs about 2 us; the usual way costs 9. Bench: metadata requests, 64 in flight.
    """
    session, _, version, _ = context
    topic = parse_single_metadata(frame, version, position)
    if topic is None or not broker.authorizer.would_allow(context, _DESCRIBE, _TOPIC, topic):
        return None
    if broker.presence is not None and not broker.presence.is_known:
        return None
    image = broker.metadata.image
    key = (topic, version, session.listener)
    ready = broker.metadata_answers.find(image, key) or _prepare(broker, context, image, key)
    if ready is None:
        return None
    reply = bytearray(ready)
    _SIZE.pack_into(reply, 4, correlation_id)
    return reply


def _prepare(broker: SingleMetadataPort, context: RequestContext, image: MetadataImage, key: Key) -> bytes | None:
    """The reply to keep; None where the usual way has to answer: the topic does not exist, the topic is large, a
    partition is offline, or a leader may be dead.
    """
    name, version, _ = key
    topic = image.topics.get(name)
    if topic is None:
        return None
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    response = metadata_now(broker, context, asked)
    if not isinstance(response, MetadataResponse) or any(each.error_code for each in response.topics[0].partitions):
        return None
    here = (state.partition for state in topic.partitions if broker.node_id in state.replicas)
    hosted = [broker.partitions.find(name, partition) for partition in here]
    if None in hosted:  # the log of a partition could not be created, and a later attempt may succeed at any time
        return None
    body = encode_response_header(0, flexible=True) + encode(response, version)
    reply = _SIZE.pack(len(body)) + body
    availabilities = tuple(partition.log.availability for partition in hosted if partition is not None)
    broker.metadata_answers.keep(key, ReadyAnswer(reply, availabilities))
    return reply
