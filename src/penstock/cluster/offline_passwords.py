"""Passwords that are set while no broker runs: of whom nobody could log in otherwise to set them over the wire.

A cluster that is to be founded takes its users from a file instead (`penstock.first.users.file`). This is for a single
node that has its store already: nobody of its users has a password, or it is lost. Only while no broker runs: brokers
follow a log of changes, and this writes none.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cluster.decisions.security.users import Upsertion, set_passwords
from penstock.cluster.deltas.security import security_difference, security_operations
from penstock.cluster.metadata import Metadata
from penstock.cluster.security_changes import check_storable
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store
from penstock.core.config.broker_config import BrokerConfig
from penstock.protocol.errors import ApiError, ErrorCode


async def write_passwords(store: Store, config: BrokerConfig, users: Sequence[Upsertion]) -> None:
    """A cluster that is not there yet is made. Raises ApiError where a password is not accepted or a broker runs, and
    StoreError.
    """
    metadata = await Metadata.load(store, config)
    if await store.children(znodes.BROKER_IDS):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a broker runs: add the user over the wire, with --bootstrap-server")
    image = metadata.image
    security = set_passwords(image.security, users)
    check_storable(image, security)
    delta = security_difference(image.security, security)
    if delta is not None:
        await store.transaction(security_operations(delta))
