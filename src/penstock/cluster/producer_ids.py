"""Producer ids: unique in the cluster for ever, so that one producer is never taken for another.

They come in blocks, each claimed in the store before any of its ids is used. Ids of a block that a crash interrupts are
lost, which costs nothing: there are 2^63. So a block that may have been claimed, because the answer was lost, is left
alone, and the one after it is claimed.
"""

from __future__ import annotations

from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store, StoreError, StoreErrorKind
from penstock.cluster.store.znodes import ProducerIdBlock
from penstock.core.limits import MAX_PRODUCER_ID, PRODUCER_ID_BLOCK_SIZE
from penstock.protocol.errors import ApiError, ErrorCode

# Each lost race means that another broker won a block, so a handful of turns is enough for any cluster we serve.
_ATTEMPTS = 20
_NOT_OURS = (StoreErrorKind.BAD_VERSION, StoreErrorKind.NODE_EXISTS, StoreErrorKind.OUTCOME_UNKNOWN)
_PASSING = (StoreErrorKind.UNAVAILABLE, StoreErrorKind.SESSION_ENDED)


async def allocate_producer_id_block(store: Store, node_id: int) -> ProducerIdBlock:
    """While the store is away: COORDINATOR_LOAD_IN_PROGRESS, as Kafka answers when its controller is. A Java producer
    ends with a fatal error after every other one that fits.
    """
    try:
        return await _allocate(store, node_id)
    except StoreError as error:
        if error.kind not in _PASSING:
            raise
        detail = f"no producer ids can be claimed: {error}"
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, detail) from error


async def _allocate(store: Store, node_id: int) -> ProducerIdBlock:
    for _ in range(_ATTEMPTS):
        node = await store.read(znodes.PRODUCER_ID_BLOCK)
        first = 0 if node is None else znodes.decode_producer_id_block(node.data).last_producer_id + 1
        if first > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
        block = ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)
        data = znodes.encode_producer_id_block(block, node_id)
        try:
            if node is None:
                await store.create(znodes.PRODUCER_ID_BLOCK, data)
            else:
                await store.compare_and_set(znodes.PRODUCER_ID_BLOCK, data, node.version)
        except StoreError as error:
            if error.kind not in _NOT_OURS:
                raise
        else:
            return block
    raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "other brokers keep claiming producer ids; try again")
