"""Producer ids: unique in the cluster for ever, so that a producer is never taken for another.

They come in blocks. A broker claims each block in the store before it uses any of its ids. A crash loses the rest of a
block, which costs nothing: there are 2^63 ids. So a broker leaves a block alone that it may have claimed, because the
answer was lost, and claims the next block.

Where the node is missing, unreadable, or names a block before one that this broker has claimed, another program has
deleted or overwritten it, and no broker knows all claimed blocks. The next block begins at a number that follows from
the time: a cluster would have had to claim a thousand blocks in every millisecond since 1970 to come that far.
"""

from __future__ import annotations

import logging

from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Node, Store, StoreError, StoreErrorKind
from penstock.cluster.store.transactions import write_operation
from penstock.cluster.store.znodes import NO_PRODUCER_IDS, ProducerIdBlock
from penstock.core.limits import MAX_PRODUCER_ID, PRODUCER_ID_BLOCK_SIZE
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

# Each lost race means that another broker won a block, so a handful of attempts is enough for any cluster that we
# serve.
_ATTEMPTS = 20
_NOT_OURS = (StoreErrorKind.BAD_VERSION, StoreErrorKind.NODE_EXISTS, StoreErrorKind.OUTCOME_UNKNOWN)
_PASSING = (StoreErrorKind.UNAVAILABLE, StoreErrorKind.SESSION_ENDED)


# Room for the year 2255 below 2^53, beyond which some clients' JSON is not exact.
_IDS_PER_MS = 1_000


async def allocate_producer_id_block(
    store: Store, node_id: int, now_ms: int, newest: ProducerIdBlock = NO_PRODUCER_IDS
) -> ProducerIdBlock:
    """`newest` is the last block that this broker has claimed.

    While the store is away: COORDINATOR_LOAD_IN_PROGRESS, as Kafka answers when its controller is. A Java producer
    ends with a fatal error after every other one that fits.
    """
    try:
        return await _allocate(store, node_id, max(now_ms * _IDS_PER_MS, newest.last_producer_id + 1), newest)
    except StoreError as error:
        if error.kind not in _PASSING:
            raise
        detail = f"no producer ids can be claimed: {error}"
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, detail) from error


async def _allocate(store: Store, node_id: int, unclaimed: int, newest: ProducerIdBlock) -> ProducerIdBlock:
    """`unclaimed` is the start if the node is lost."""
    for _ in range(_ATTEMPTS):
        node = await store.read(znodes.PRODUCER_ID_BLOCK)
        stored, first = _decode(node), unclaimed
        if stored is None or stored.last_producer_id < newest.last_producer_id:
            logger.error("%s is lost: producer ids go on from %d", znodes.PRODUCER_ID_BLOCK, unclaimed)
        else:
            first = stored.last_producer_id + 1
        if first > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
        block = ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)
        data = znodes.encode_producer_id_block(block, node_id)
        try:
            await store.transaction([write_operation(znodes.PRODUCER_ID_BLOCK, node, data)])
        except StoreError as error:
            if error.kind not in _NOT_OURS:
                raise
        else:
            return block
    raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "other brokers keep claiming producer ids; try again")


def _decode(node: Node | None) -> ProducerIdBlock | None:
    """None where it cannot be known."""
    try:
        return None if node is None else znodes.decode_producer_id_block(node.data)
    except StoreError:
        return None
