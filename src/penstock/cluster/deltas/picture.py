"""The picture of the metadata that Kafka's tools see: its nodes in the store, from `SNAPSHOT_LEVEL` on. Pure.

Rules:
- Nothing is ever loaded from the picture. The log and its snapshots are the truth.
- The operations are guesses about the store: a node of the picture before is set, and a new node is created. Where a
  guess is wrong, because of a crash or another program, `settled_operations` gives the operations for the nodes that
  really exist.
- A node that no store can hold is left out.

Each function takes some 10 us for each node: meant for a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from penstock.cluster.deltas.delta import difference
from penstock.cluster.deltas.nodes import shown_operations
from penstock.cluster.image import MetadataImage
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import (
    CompareAndSet,
    Create,
    Delete,
    Node,
    Operation,
    StoreError,
    check_operation,
    path_and_parents,
)

NO_SETTINGS = znodes.encode_settings({})


class SecurityKind(NamedTuple):
    field: str  # of `SecurityImage`
    path_of: Callable[[Any], str]
    encode: Callable[[Any], bytes]
    is_flat: bool = False  # all nodes have one parent, which belongs to no other kind


SECURITY_KINDS = (
    SecurityKind("acls", security_nodes.acl_path, security_nodes.encode_acls),
    SecurityKind("entity_configs", security_nodes.entity_path, znodes.encode_settings),
    SecurityKind("tokens", security_nodes.token_path, znodes.encode_settings, is_flat=True),
    SecurityKind("policies", security_nodes.policy_path, znodes.encode_settings, is_flat=True),
)


class Guesses(NamedTuple):
    operations: Sequence[Operation]
    # The reasons for the nodes that are left out.
    left_out: Mapping[str, str]


def picture_operations(old: MetadataImage, new: MetadataImage) -> Guesses:
    """The operations that turn the picture of one image into that of the other."""
    delta = difference(old, new)
    if delta is None:
        return Guesses((), {})
    operations = _without_detours([*shown_operations(delta, new), *_security_operations(old.security, new.security)])
    left_out = {operation.path: reason for operation in operations if (reason := _why_not(operation))}
    return Guesses([operation for operation in operations if operation.path not in left_out], left_out)


def _without_detours(operations: Iterable[Operation]) -> list[Operation]:
    """Writes whatever version a node has. The nodes of a recreated topic are set, and are not deleted in between."""
    last: dict[str, Operation] = {}
    for operation in operations:
        before = last.pop(operation.path, None)
        if isinstance(operation, CompareAndSet) or (isinstance(operation, Create) and before is not None):
            operation = CompareAndSet(operation.path, operation.data)
        last[operation.path] = operation
    return list(last.values())


def can_be_drawn(operation: Operation) -> bool:
    """Whether the store can hold the node."""
    return not _why_not(operation)


def _why_not(operation: Operation) -> str:
    try:
        check_operation(operation)
    except StoreError as error:
        return str(error)
    return ""


def _security_operations(old: SecurityImage, new: SecurityImage) -> list[Operation]:
    gone: list[Operation] = []
    written: list[Operation] = []
    for kind in SECURITY_KINDS:
        field, path_of, encode, _ = kind
        before, after = getattr(old, field), getattr(new, field)
        if before is after:
            continue
        gone += _gone_operations([path_of(key) for key in before if key not in after], kind, after)
        for key, value in after.items():
            known = before.get(key)
            if known is not value and known != value:
                path, data = path_of(key), encode(value)
                written.append(CompareAndSet(path, data) if key in before else Create(path, data))
    return gone + written


def _gone_operations(gone: Sequence[str], kind: SecurityKind, after: Mapping[Any, Any]) -> list[Operation]:
    """A node stays as long as other nodes are below it."""
    if not gone:
        return []
    left = security_nodes.with_parents(map(kind.path_of, islice(after, 1) if kind.is_flat else after))
    going = security_nodes.with_parents(gone) - left
    return [
        *(Delete(path) for path in sorted(going, reverse=True)),
        *(CompareAndSet(path, NO_SETTINGS) for path in gone if path in left),
    ]


def is_left_out(path: str, left_out: Container[str]) -> bool:
    """Whether the node is one of these, or below one."""
    return any(each in left_out for each in path_and_parents(path))


def settled_paths(operations: Iterable[Operation]) -> list[str]:
    """The paths to read for `settled_operations`."""
    return list(dict.fromkeys(each for operation in operations for each in path_and_parents(operation.path)))


def settled_operations(operations: Iterable[Operation], present: Mapping[str, Node]) -> list[Operation]:
    """The operations that bring about the meaning of the guesses, where these nodes exist."""
    wanted: dict[str, bytes | None] = {}
    for operation in operations:
        wanted.pop(operation.path, None)  # the last operation of a path counts, in its place
        wanted[operation.path] = operation.data if isinstance(operation, Create | CompareAndSet) else None
    there = set(present)
    settled: list[Operation] = []
    for path, data in wanted.items():
        if data is None:
            if path in there:
                settled.append(Delete(path))
                there.discard(path)
        elif path not in there:
            missing = [each for each in path_and_parents(path)[:-1] if each not in there]
            settled += [Create(each) for each in missing]
            settled.append(Create(path, data))
            there.update((*missing, path))
        elif path not in present or present[path].data != data:
            settled.append(CompareAndSet(path, data))
    return settled
