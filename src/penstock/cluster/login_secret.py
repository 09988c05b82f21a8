"""A secret that only the brokers of a cluster share. The first broker that needs the secret makes it.

Brokers compute the salts of users that do not exist from the secret. A salt that changed with a restart, or from one
broker to the next, would distinguish a missing user from a real user, whose salt stays.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store, StoreError, StoreErrorKind

_SIZE = 32


async def read_login_secret(store: Store, random_bytes: Callable[[int], bytes]) -> bytes:
    """Raises StoreError."""
    node = await store.read(znodes.LOGIN_SECRET)
    if node is not None:
        return node.data
    made = random_bytes(_SIZE)
    try:
        await store.create(znodes.LOGIN_SECRET, made)
    except StoreError as error:
        if error.kind is not StoreErrorKind.NODE_EXISTS:
            raise
        return await read_login_secret(store, random_bytes)  # another broker was faster
    return made
