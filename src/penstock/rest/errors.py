"""The errors for callers: a status, a code of Confluent's, a sentence.

One table has status and code: the first three digits of a code are its status. Every exception of an endpoint becomes a
`RestError` here and nowhere else: errors of brokers, of connections, of the registry and of bodies.
"""

from __future__ import annotations

from typing import Final

import msgspec

from penstock.client.connection import LoginRefusedError
from penstock.http.callers.clients import NoBrokerLoginError, TooManyClientsError
from penstock.protocol.errors import ApiError, ErrorCode, is_retriable, shorten_reason
from penstock.rest.number_texts import reason_of

# The codes of kafka-rest. Some numbers mean one thing in v2 and another in v3; both names stand here.
BAD_REQUEST: Final = 40001
KAFKA_BAD_REQUEST: Final = 40002
UNAUTHENTICATED: Final = 40101
FORBIDDEN: Final = 40301
TOPIC_NOT_FOUND: Final = 40401
PARTITION_NOT_FOUND: Final = 40402
INSTANCE_NOT_FOUND: Final = 40403  # v2
TOPIC_PARTITION_NOT_FOUND: Final = 40403  # v3
LEADER_NOT_FOUND: Final = 40404
GROUP_NOT_FOUND: Final = 40405
FORMAT_MISMATCH: Final = 40601
TOO_LARGE: Final = 413
ALREADY_SUBSCRIBED: Final = 40901
INSTANCE_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
KEY_SCHEMA_MISSING: Final = 42201
VALUE_SCHEMA_MISSING: Final = 42202
JSON_CONVERSION: Final = 42203
INVALID_CONSUMER_CONFIG: Final = 42204
INVALID_SCHEMA: Final = 42205
INVALID_PAYLOAD: Final = 42206
SERIALIZATION: Final = 42207
PRODUCE_BATCH: Final = 42208
TOO_MANY_REQUESTS: Final = 42901
KAFKA_ERROR: Final = 50002
KAFKA_RETRIABLE: Final = 50003
BROKER_UNAVAILABLE: Final = 50302


class RestError(Exception):
    """The request, or one record of it, is refused. A code is an HTTP status, or a code of the table above."""

    def __init__(self, code: int, message: str, status: int | None = None) -> None:
        message = shorten_reason(message) or ""
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or (code if code < 1000 else code // 100)


_UNAUTHENTICATED = frozenset({ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE})
_FORBIDDEN = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
# The caller's request is wrong, and a retry would not help.
_BAD_REQUEST = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_UNAVAILABLE = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE})


def of_api_error(error: ApiError) -> RestError:
    code = error.code
    if code in _UNAUTHENTICATED:
        return RestError(UNAUTHENTICATED, error.message)
    if code in _FORBIDDEN:
        return RestError(FORBIDDEN, error.message)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return RestError(TOPIC_PARTITION_NOT_FOUND, "This server does not host this topic-partition.")
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return RestError(GROUP_NOT_FOUND, error.message)
    if code in _TOO_LARGE:
        return RestError(TOO_LARGE, error.message)
    if code in _BAD_REQUEST:
        return RestError(KAFKA_BAD_REQUEST, error.message)
    if code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        return RestError(TOO_MANY_REQUESTS, error.message)
    if code in _UNAVAILABLE:
        return RestError(BROKER_UNAVAILABLE, error.message)
    return RestError(KAFKA_RETRIABLE if is_retriable(code) else KAFKA_ERROR, error.message)


def of_exception(error: Exception) -> RestError | None:
    """None for a mistake of ours: the listener logs it, counts it and answers 500."""
    match error:
        case RestError():
            return error
        case ApiError():
            return of_api_error(error)
        case LoginRefusedError():
            return RestError(UNAUTHENTICATED, "the broker does not accept these credentials")
        case NoBrokerLoginError():
            return RestError(FORBIDDEN, str(error))
        case TooManyClientsError():
            return RestError(503, str(error))
        case msgspec.ValidationError():
            return RestError(422, reason_of(error))
        case msgspec.DecodeError():
            return RestError(400, f"the body is no JSON: {error}")
        case UnicodeDecodeError():  # of msgspec, for a text in a body
            return RestError(400, "the body is no JSON: a text in it is no UTF-8")
        case RecursionError():  # of msgspec, for a body
            return RestError(400, "the body nests too deep")
        case TimeoutError():
            return RestError(KAFKA_RETRIABLE, "a broker did not answer in time")
        case OSError():
            return RestError(BROKER_UNAVAILABLE, "no broker can be reached")
    return None
