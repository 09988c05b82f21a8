"""The store of a cluster's metadata, as commands reach it that work beside the brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.extras import require
from penstock.core.properties import read_properties

if TYPE_CHECKING:
    from penstock.cluster.store.zookeeper.store import ZooKeeperStore

# While such a command holds the controller's office nobody else does. If it is killed, that lasts until its session
# ends.
_SESSION_TIMEOUT_MS = 6_000
_UNREACHABLE = (StoreErrorKind.UNAVAILABLE, StoreErrorKind.OUTCOME_UNKNOWN, StoreErrorKind.SESSION_ENDED)


def read_store_config(zookeeper: str | None, config: Path | None, own: dict[str, str] | None = None) -> BrokerConfig:
    """From `--zookeeper` and `--config`, a broker's properties; `own` are settings that beat the file's."""
    require("zookeeper", "zookeeper.connect")
    try:
        properties = {} if config is None else read_properties(config)
        if own:
            properties.pop("log.dir", None)
            properties.update(own)
        if zookeeper is not None:
            properties["zookeeper.connect"] = zookeeper
        if not properties.get("zookeeper.connect"):
            raise UsageError("no ZooKeeper", "Give --zookeeper HOST:PORT, or zookeeper.connect in --config.")
        properties.setdefault("zookeeper.session.timeout.ms", str(_SESSION_TIMEOUT_MS))
        return BrokerConfig.parse(properties)
    except ConfigError as error:
        raise UsageError(error.message) from error


async def open_store(config: BrokerConfig) -> ZooKeeperStore:
    from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
    from penstock.cluster.store.zookeeper.store import ZooKeeperStore

    return await ZooKeeperStore.open(ZooKeeperSettings.of(config.zookeeper))


def give_access_lists(config: BrokerConfig) -> int:
    """To all nodes of the cluster, as `zookeeper.set.acl` has it; how many there are."""
    from penstock.cluster.store.zookeeper import access_lists

    async def give() -> int:
        store = await open_store(config)
        try:
            return await access_lists.give_access_lists(store)
        finally:
            await store.close()

    try:
        return asyncio.run(give())
    except StoreError as error:
        raise CliError(str(error), "Check zookeeper.connect and the login in --config.", exit_code_of(error)) from error


def exit_code_of(error: StoreError) -> ExitCode:
    return ExitCode.UNREACHABLE if error.kind in _UNREACHABLE else ExitCode.FAILURE
