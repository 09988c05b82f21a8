"""`penstock cluster adopt`: from options to an adoption, and what the user is told of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from penstock.cli import output
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cluster.decisions.adoption import AdoptionError
from penstock.cluster.store.interface import Store, StoreError, StoreErrorKind
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.properties import read_properties
from penstock.server.adoption import Adopted, Adoption, Step

# While this command holds the controller's office nobody else does. If it is killed, that lasts until its session ends.
_SESSION_TIMEOUT_MS = 6_000
_UNREACHABLE = (StoreErrorKind.UNAVAILABLE, StoreErrorKind.OUTCOME_UNKNOWN, StoreErrorKind.SESSION_ENDED)


class AdoptOptions(NamedTuple):
    data: tuple[Path, ...]
    zookeeper: str | None
    broker_id: int | None
    config: Path | None


def adopt_node(options: AdoptOptions) -> int:
    config = _read_config(options)

    async def open_cluster() -> Store:
        from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
        from penstock.cluster.store.zookeeper.store import ZooKeeperStore

        return await ZooKeeperStore.open(ZooKeeperSettings.of(config.zookeeper))

    broker_id = options.broker_id
    if broker_id is None and {"broker.id", "node.id"} & config.static.keys():
        broker_id = config.identity.node_id
    paths = [Path(path) for path in config.log_directories]
    adoption = Adoption(paths, open_cluster, SystemClock(), _tell, node_id=broker_id)
    try:
        adopted = asyncio.run(adoption.run())
    except AdoptionError as error:
        raise CliError(error.message, error.hint) from error
    except StoreError as error:
        code = ExitCode.UNREACHABLE if error.kind in _UNREACHABLE else ExitCode.FAILURE
        raise CliError(str(error), "Run the command again: it goes on where it stopped.", code) from error
    except OSError as error:
        raise CliError(str(error), "Run the command again: it goes on where it stopped.") from error
    _report(adopted, str(config.zookeeper.zookeeper_connect))
    return ExitCode.SUCCESS


def _read_config(options: AdoptOptions) -> BrokerConfig:
    try:
        properties = {} if options.config is None else read_properties(options.config)
        if options.data:
            properties.pop("log.dir", None)
            properties["log.dirs"] = ",".join(map(str, options.data))
        if options.zookeeper is not None:
            properties["zookeeper.connect"] = options.zookeeper
        if not properties.get("log.dirs") and not properties.get("log.dir"):
            raise UsageError("no data directory", "Give --data DIR, or log.dirs in --config.")
        if not properties.get("zookeeper.connect"):
            raise UsageError("no ZooKeeper", "Give --zookeeper HOST:PORT, or zookeeper.connect in --config.")
        properties.setdefault("zookeeper.session.timeout.ms", str(_SESSION_TIMEOUT_MS))
        return BrokerConfig.parse(properties)
    except ConfigError as error:
        raise UsageError(error.message) from error


def _tell(step: Step) -> None:
    if step is not Step.FINISHED:
        output.note(f"  {step.value}")


def _report(adopted: Adopted, connect: str) -> None:
    what = "The directory belongs to" if adopted.was_finished else "The node is a broker of"
    output.note(
        f"{what} cluster {adopted.cluster_id}, with the id {adopted.node_id}: "
        f"{adopted.topic_count} topics, {adopted.partition_count} partitions.\n"
        f"Start it with broker.id={adopted.node_id} and zookeeper.connect={connect}."
    )
