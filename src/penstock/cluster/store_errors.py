"""Translates errors of the store into errors for clients."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeVar

from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# The client's error when the store refuses a change; any other error is a fault on our side.
_STORE_CODES = {
    StoreErrorKind.BAD_VERSION: ErrorCode.NOT_CONTROLLER,
    # Another program has deleted a node, and the brokers write it again (`controller.node_repair`).
    StoreErrorKind.NO_NODE: ErrorCode.NOT_CONTROLLER,
    StoreErrorKind.TOO_LARGE: ErrorCode.POLICY_VIOLATION,
    StoreErrorKind.CLOSED: ErrorCode.BROKER_NOT_AVAILABLE,
    StoreErrorKind.NOT_WRITABLE: ErrorCode.KAFKA_STORAGE_ERROR,
    # A controller that does not reach the store is not the controller any more, or will not be for long. Java's client
    # and kafka-python look for the controller again after NOT_CONTROLLER, and give up after any other error.
    StoreErrorKind.UNAVAILABLE: ErrorCode.NOT_CONTROLLER,
    StoreErrorKind.SESSION_ENDED: ErrorCode.NOT_CONTROLLER,
    # Whether or not the change was made: a client that tries again finds out.
    StoreErrorKind.OUTCOME_UNKNOWN: ErrorCode.NOT_CONTROLLER,
}


async def as_api_errors(work: Awaitable[Value]) -> Value:
    """Turns an error of the store into one for the client."""
    try:
        return await work
    except StoreError as error:
        logger.error("the metadata store refused a change: %s", error)
        code = _STORE_CODES.get(error.kind, ErrorCode.UNKNOWN_SERVER_ERROR)
        if error.kind is StoreErrorKind.NODE_EXISTS and error.path.startswith(f"{znodes.LOG}/"):
            # Another program's node stands in the place of the change. Nothing of this step is made, the controller
            # resigns, and the next elected controller removes the node.
            code = ErrorCode.NOT_CONTROLLER
        # A client can make a change smaller if it knows the excess. Other details are ours.
        reason = str(error) if error.kind is StoreErrorKind.TOO_LARGE else error.kind.value
        raise ApiError(code, f"the metadata store refused the change: {reason}") from error
