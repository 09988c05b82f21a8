"""Operations on the store in transactions that fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Node,
    Operation,
    TransactionLimit,
    transaction_size,
)


def write_operation(path: str, node: Node | None, data: bytes) -> Operation:
    """`node` is the node as it was read. Fails where another program has written since."""
    return Create(path, data) if node is None else CompareAndSet(path, data, node.version)


def fits(operations: Sequence[Operation], limit: TransactionLimit | None) -> bool:
    if limit is None:
        return True
    return len(operations) <= limit.operation_count and transaction_size(operations) <= limit.size


def in_transactions(
    operations: Iterable[Operation], limit: TransactionLimit | None, fence: Check | None = None
) -> Iterator[list[Operation]]:
    """Splits the operations, in their order, into transactions that fit. Each has the fence, if there is one."""
    head: list[Operation] = [] if fence is None else [fence]
    part, size = list(head), transaction_size(head)
    for operation in operations:
        added = transaction_size([operation])
        is_full = limit is not None and (len(part) >= limit.operation_count or size + added > limit.size)
        if is_full and len(part) > len(head):
            yield part
            part, size = list(head), transaction_size(head)
        part.append(operation)
        size += added
    if len(part) > len(head):
        yield part
