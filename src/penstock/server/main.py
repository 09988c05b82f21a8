"""A broker as a process of its own: signals, the ready line, monitoring, exit codes."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.cluster.store.interface import StoreError
from penstock.core import logs
from penstock.core.config.broker_config import BrokerConfig, ConfigError
from penstock.core.loops import new_event_loop, raise_file_limit
from penstock.core.words.failure_text import MAX_PORT, PORTS_END, describe_os_error, tell_error
from penstock.log.directories.log_directories import LogDirectoryError
from penstock.log.storage.files import Files
from penstock.server.broker_server import BrokerServer
from penstock.server.monitoring.watchdog import Watchdog

if TYPE_CHECKING:
    from penstock.server.monitoring.endpoints import MonitoringServer

logger = logging.getLogger("penstock.server")

# New objects before the collector looks for cycles among them. Requests leave hardly any behind, and a thousand of them
# that wait at once, as in a rebalance, are gone through each time. A request that names 100,000 things consists of some
# 300,000 objects: the second number keeps a look at those that survived below 5 ms, the third makes a look at
# everything, 30 ms and more, rare: once in 30 million new objects.
COLLECTOR_THRESHOLDS = (10_000, 3, 1_000)


def run_broker(properties: Mapping[str, str], files: Files | None = None, announcement: str = "") -> int:
    """Runs the broker until SIGTERM or SIGINT. Returns the exit code. `files` is another disk than the real one.
    `announcement` is printed when the broker is ready.
    """
    try:
        config = BrokerConfig.parse(properties)
    except ConfigError as error:
        tell_error(error.message)
        return 2
    logs.configure(config.process.penstock_log_format, config.process.penstock_log_level)
    raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(config, files, announcement))


async def _serve(config: BrokerConfig, files: Files | None, announcement: str) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        server = await BrokerServer.start(config, files=files)
    except ConfigError as error:  # what only the files that a setting names can show
        tell_error(error.message)
        return 2
    except (OSError, LogDirectoryError, StoreError) as error:
        tell_error(f"the broker cannot start: {_describe(error)}")
        return 1
    try:
        monitoring = await _start_monitoring(config, server)
    except (OSError, ConfigError) as error:
        where = f"{config.process.penstock_metrics_listen}: "
        tell_error(f"cannot serve metrics on {where}{_describe(error).removeprefix(where)}")
        await server.stop()
        return 1
    _spare_the_collector()
    watchdog = Watchdog(server.broker.metrics.loop, lambda: server.broker.metrics.sockets.requests)
    watchdog.start()
    print(f"penstock broker {config.identity.node_id} is ready at {server.bootstrap_servers}", flush=True)
    if announcement:
        print(announcement, flush=True)
    await stopping.wait()
    logger.info("shutting down")
    watchdog.stop()
    await server.stop()
    if monitoring is not None:
        await monitoring.stop()
    logger.info("shut down cleanly")
    return 0


def _spare_the_collector() -> None:
    """Tells the garbage collector to leave the objects of the start alone, and to run less often.

    Those objects stay until the end, and while the collector goes through them no client is served. With both settings
    the collector takes a third of the time in a rebalance of 1,000 consumers. An embedded broker must not do this: the
    process belongs to its user.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


async def _start_monitoring(config: BrokerConfig, server: BrokerServer) -> MonitoringServer | None:
    if not config.process.penstock_metrics_listen:
        return None
    # 50 ms that a broker nobody monitors does not spend
    from importlib.metadata import version

    from penstock.server.monitoring.endpoints import MonitoringServer
    from penstock.server.monitoring.exposition import Exposition
    from penstock.server.monitoring.security import cluster_users, read_security

    host, _, port = config.process.penstock_metrics_listen.rpartition(":")
    if int(port) > MAX_PORT:  # the event loop would take the remainder
        raise OSError(errno.EINVAL, PORTS_END)
    exposition = Exposition(server.broker.metrics, version("penstock"), server.broker.slices)
    broker = server.broker
    security = await read_security(
        lambda: broker.metadata.config, broker.metrics.sockets, broker.clock, cluster_users(broker)
    )
    monitoring = MonitoringServer(
        exposition.render_metrics, server.health, security, broker.metrics.http, broker.auditor
    )
    await monitoring.start(host.strip("[]"), int(port))
    return monitoring


def _describe(error: Exception) -> str:
    return describe_os_error(error) if isinstance(error, OSError) else str(error)
