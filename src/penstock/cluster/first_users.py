"""Users that are in the store before the first broker starts: somebody has to be able to log in.

Only while no broker runs: brokers follow a log of changes, and this writes none.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cluster.decisions.security.users import Upsertion, UserResult, decide_alter_users
from penstock.cluster.deltas.security import security_difference, security_operations
from penstock.cluster.metadata import Metadata
from penstock.cluster.security_changes import check_storable
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store
from penstock.core.config.broker_config import BrokerConfig
from penstock.protocol.errors import ApiError, ErrorCode


async def write_first_users(store: Store, config: BrokerConfig, users: Sequence[Upsertion]) -> None:
    """Sets passwords; a cluster that is not there yet is made. One mechanism after the other: a user is named once in
    each change. Raises ApiError where a password is not accepted or a broker runs, and StoreError.
    """
    metadata = await Metadata.load(store, config)
    if await store.children(znodes.BROKER_IDS):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a broker runs: add the user over the wire, with --bootstrap-server")
    image = metadata.image
    security = image.security
    for user in users:
        results, security = decide_alter_users(security, (), (user,))
        _raise_refusal(results)
    check_storable(image, security)
    delta = security_difference(image.security, security)
    if delta is not None:
        await store.transaction(security_operations(delta))


def _raise_refusal(results: Sequence[UserResult]) -> None:
    for result in results:
        if result.code != ErrorCode.NONE:
            raise ApiError(result.code, result.message)
