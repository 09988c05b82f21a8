"""Translates ZooKeeper's errors into the store's errors.

A change that the server refused was not made. Every other error leaves the outcome of a change unknown: the connection
was lost before the answer came, or the server gave an unknown reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.cluster.store.interface import Create, Operation, StoreError, StoreErrorKind, parent_of

# By the name of kazoo's class: this module does not import kazoo.
_KINDS: dict[str, StoreErrorKind] = {
    "NoNodeError": StoreErrorKind.NO_NODE,
    "NodeExistsError": StoreErrorKind.NODE_EXISTS,
    "BadVersionError": StoreErrorKind.BAD_VERSION,
    "NotEmptyError": StoreErrorKind.NOT_EMPTY,
    "NoChildrenForEphemeralsError": StoreErrorKind.NO_CHILDREN_FOR_EPHEMERALS,
    "BadArgumentsError": StoreErrorKind.BAD_PATH,
    "SessionExpiredError": StoreErrorKind.SESSION_ENDED,
    "ConnectionClosedError": StoreErrorKind.SESSION_ENDED,
    "NoAuthError": StoreErrorKind.UNAVAILABLE,
    "InvalidACLError": StoreErrorKind.UNAVAILABLE,
    "AuthFailedError": StoreErrorKind.UNAVAILABLE,
    "SessionMovedError": StoreErrorKind.UNAVAILABLE,
    "NotReadOnlyCallError": StoreErrorKind.UNAVAILABLE,
    "QuotaExceededError": StoreErrorKind.UNAVAILABLE,
    "ThrottledOpError": StoreErrorKind.UNAVAILABLE,
}
_DETAILS = {
    "NoAuthError": "ZooKeeper does not let us: another user made the node (see zookeeper.set.acl)",
    "InvalidACLError": "zookeeper.set.acl needs a user that ZooKeeper knows: by digest, SASL or a certificate",
    "AuthFailedError": "ZooKeeper refuses our credentials",
    "QuotaExceededError": "a quota of ZooKeeper's does not allow it",
}
# An access list or a quota: they hold for some nodes, and not for others.
_REFUSALS = ("NoAuthError", "QuotaExceededError")
# A transaction's result for operations that did not fail themselves.
_CONSEQUENCES = ("RolledBackError", "RuntimeInconsistency")


def translate(error: Exception, path: str, *, is_change: bool) -> StoreError:
    name = type(error).__name__
    unknown = StoreErrorKind.OUTCOME_UNKNOWN if is_change else StoreErrorKind.UNAVAILABLE
    return StoreError(_KINDS.get(name, unknown), path, _DETAILS.get(name, ""), is_refusal=name in _REFUSALS)


def failure(results: Sequence[Any], operations: Sequence[Operation]) -> StoreError | None:
    """The error that stopped a transaction; kazoo gives errors among the results. None: the transaction was made."""
    failed = [(each, operation) for each, operation in zip(results, operations, strict=True) if _is_error(each)]
    if not failed:
        return None
    causes = [each for each in failed if type(each[0]).__name__ not in _CONSEQUENCES]
    if not causes:
        return StoreError(StoreErrorKind.OUTCOME_UNKNOWN, operations[0].path)
    error, operation = causes[0]
    is_parent_missing = type(error).__name__ == "NoNodeError" and isinstance(operation, Create)
    return translate(error, parent_of(operation.path) if is_parent_missing else operation.path, is_change=True)


def _is_error(result: Any) -> bool:
    return isinstance(result, Exception)
