"""The topics a member of protocol type "consumer" subscribes to, read out of its otherwise opaque metadata.

Version 0 of ConsumerProtocolSubscription is a prefix of every later version, so it is all that is ever read: new
client versions need no change here. What other protocol types ("connect", "stream") put there is theirs alone.
"""

from __future__ import annotations

import struct

from penstock.protocol.codec import decode_prefix
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"

_VERSION = struct.Struct(">h")


def decode_subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None if the bytes are not a consumer subscription."""
    if len(metadata) < _VERSION.size or _VERSION.unpack_from(metadata)[0] < 0:
        return None
    try:
        subscription, _ = decode_prefix(ConsumerProtocolSubscription, metadata, 0, _VERSION.size)
    except ApiError:
        return None
    return frozenset(subscription.topics)
