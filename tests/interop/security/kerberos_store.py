"""The store on a ZooKeeper with Kerberos, in a process of its own: the realm comes from the environment.

    python -m tests.interop.security.kerberos_store CONNECT PATH [PRINCIPAL KEYTAB]

Creates or changes the node, which belongs to whoever made it, and prints what went wrong.
"""

from __future__ import annotations

import asyncio
import sys

from penstock.cluster.store.interface import ANY_VERSION, StoreError
from penstock.cluster.store.zookeeper.settings import ConnectString, SaslSettings, ZooKeeperSettings
from penstock.cluster.store.zookeeper.store import ZooKeeperStore


async def write(connect: str, path: str, username: str | None = None, keytab: str | None = None) -> str:
    settings = ZooKeeperSettings(
        connect=ConnectString.parse(connect),
        session_timeout_ms=10_000,
        connection_timeout_ms=10_000,
        sets_acl=True,
        sasl=SaslSettings(mechanism="GSSAPI", username=username, keytab=keytab),
    )
    try:
        store = await ZooKeeperStore.open(settings)
        try:
            if await store.read(path) is None:
                await store.create(path, b"mine")
            else:
                await store.compare_and_set(path, b"changed", ANY_VERSION)
        finally:
            await store.close()
    except StoreError as error:
        return f"{error.kind.name}: {error}"
    return "written"


if __name__ == "__main__":
    print(asyncio.run(write(*sys.argv[1:])))
