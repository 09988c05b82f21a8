"""Error codes that say that another broker is to be asked, wherever they stand in an answer.

All of them are retriable by the table (`protocol.errors`), which does not say where to look anew.
"""

from __future__ import annotations

from collections.abc import Container

from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message

COORDINATOR_MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
CONTROLLER_MOVED = frozenset({ErrorCode.NOT_CONTROLLER})
LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
NOWHERE: frozenset[ErrorCode] = frozenset()


def has_code(answer: Message, codes: Container[int]) -> bool:
    """Whether the answer, or anything in its lists, has an error of these."""
    for field in answer.FIELDS:
        value = getattr(answer, field.attribute)
        if isinstance(value, list):
            if any(isinstance(each, Message) and has_code(each, codes) for each in value):
                return True
        elif field.attribute.endswith("error_code") and value in codes:
            return True
    return False
