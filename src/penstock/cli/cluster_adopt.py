"""`penstock cluster adopt`: from options to an adoption, and what the user is told of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from penstock.cli import output
from penstock.cli.access.zookeeper import exit_code_of, open_store, read_store_config
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cluster.decisions.adoption import AdoptionError
from penstock.cluster.store.interface import Store, StoreError
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.server.adoption import Adopted, Adoption, AdoptionStep


class AdoptOptions(NamedTuple):
    data: tuple[Path, ...]
    zookeeper: str | None
    broker_id: int | None
    config: Path | None


def adopt_node(options: AdoptOptions) -> int:
    config = _read_config(options)

    async def open_cluster() -> Store:
        return await open_store(config)

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
        hint = "Run the command again: it goes on where it stopped."
        raise CliError(str(error), hint, exit_code_of(error)) from error
    except OSError as error:
        raise CliError(str(error), "Run the command again: it goes on where it stopped.") from error
    _report(adopted, str(config.zookeeper.zookeeper_connect))
    return ExitCode.SUCCESS


def _read_config(options: AdoptOptions) -> BrokerConfig:
    own = {"log.dirs": ",".join(map(str, options.data))} if options.data else None
    config = read_store_config(options.zookeeper, options.config, own)
    if not {"log.dirs", "log.dir"} & config.static.keys():
        raise UsageError("no data directory", "Give --data DIR, or log.dirs in --config.")
    return config


def _tell(step: AdoptionStep) -> None:
    if step is not AdoptionStep.FINISHED:
        output.note(f"  {step.value}")


def _report(adopted: Adopted, connect: str) -> None:
    what = "The directory belongs to" if adopted.was_finished else "The node is a broker of"
    output.note(
        f"{what} cluster {adopted.cluster_id}, with the id {adopted.node_id}: "
        f"{adopted.topic_count} topics, {adopted.partition_count} partitions.\n"
        f"Start it with broker.id={adopted.node_id} and zookeeper.connect={connect}."
    )
