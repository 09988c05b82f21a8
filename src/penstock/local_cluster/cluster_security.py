"""A cluster whose brokers need TLS and a login: the files made before its first start, and the rights on its data in
ZooKeeper.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence

from penstock.cluster.store.interface import StoreError
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.loops import LoopThread
from penstock.local_cluster.directory import ClusterDirectory
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.settings import BrokerPlace
from penstock.security.private_files import write_private
from penstock.security_setup.setup import LISTENER, BrokerAddress, SecureSetup, SecureSetupError


def find_setup(directory: ClusterDirectory, *, is_wanted: bool) -> SecureSetup | None:
    """A cluster that was secure once stays so."""
    setup = SecureSetup(directory.security_dir)
    return setup if is_wanted or _was_secure(directory, setup) else None


def secure_places(directory: ClusterDirectory, places: Sequence[BrokerPlace]) -> list[BrokerPlace]:
    """Raises ClusterError where the cluster was founded without security, or its passwords are lost: no login would
    work.
    """
    setup = SecureSetup(directory.security_dir)
    founded = next((place for place in places if place.data_dir.exists()), None)
    if founded is not None and _was_secure(directory, setup):
        _check_whole(directory, setup)
    elif founded is not None:
        raise ClusterError(
            f"{directory.path} holds a cluster that is not secure, so that nobody could log in",
            "Take another directory, or see `Turn security on in a running cluster` in docs/guides/security.md.",
        )
    servers = ",".join(f"{place.host}:{place.port}" for place in places)
    addresses = [BrokerAddress(place.node_id, (place.host,)) for place in places]
    try:
        setup.prepare(addresses, datetime.datetime.now(datetime.UTC), servers)
        if not directory.secure_mark.exists():
            write_private(directory.secure_mark, os.fsencode(f"{setup.path}\n"))
        own = [{**setup.broker_properties(place.node_id), **setup.store_properties()} for place in places]
    except SecureSetupError as error:
        raise ClusterError(str(error)) from error
    return [place._replace(listener=LISTENER, own=settings) for place, settings in zip(places, own, strict=True)]


def own_connect(directory: ClusterDirectory, servers: str) -> str:
    """`zookeeper.connect` of a secure cluster: below a node of its own, unless the user names one."""
    return servers if "/" in servers else servers + SecureSetup(directory.security_dir).zookeeper_root


def guard_zookeeper(properties: dict[str, str]) -> None:
    """Closes a ZooKeeper that serves this cluster alone to all other clients, from its highest node on. `properties`
    are those of one of its brokers, all of which may run already. Raises ClusterError.
    """
    from penstock.cluster.store.zookeeper.access_lists import guard_ensemble
    from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
    from penstock.cluster.store.zookeeper.store import ZooKeeperStore

    async def guard() -> None:
        store = await ZooKeeperStore.open(ZooKeeperSettings.of(BrokerConfig.parse(properties).zookeeper))
        try:
            await guard_ensemble(store)
        finally:
            await store.close()

    thread = LoopThread("penstock-guard")
    try:
        thread.call(guard())
    except StoreError as error:
        raise ClusterError(f"ZooKeeper could not be closed to others: {error}") from error
    finally:
        thread.stop()


def _was_secure(directory: ClusterDirectory, setup: SecureSetup) -> bool:
    return setup.is_there or setup.broker_file.exists() or directory.secure_mark.exists()


def _check_whole(directory: ClusterDirectory, setup: SecureSetup) -> None:
    """The store has the users' passwords, and takes a new one only from a client that knows an old one. So lost files
    cannot be made anew before the brokers run.
    """
    lost = setup.lost
    if not lost:
        return
    hint = f"Put {setup.path} back from a copy."
    if lost == [setup.client_file]:
        command = f"penstock users password admin --command-config {setup.client_file}"
        hint += (
            f" Or log in as the brokers do: cp -p {setup.broker_file} {setup.client_file}, start the cluster, "
            f"`{command}`, then write admin and this password to the file."
        )
    names = ", ".join(map(str, lost))
    raise ClusterError(f"{directory.path} holds a secure cluster, but files are missing: {names}", hint)
