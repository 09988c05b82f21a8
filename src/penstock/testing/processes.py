"""Servers run as processes of their own, for tests: start, wait until they answer, stop, kill, start again."""

from __future__ import annotations

from penstock.processes.broker_process import BrokerProcess
from penstock.processes.registry_process import RegistryProcess
from penstock.processes.server_process import (
    LOG_TAIL_LINES,
    POLL_INTERVAL_S,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    ServerGroup,
    ServerProcess,
    ServerProcessError,
    find_free_port,
)
from penstock.processes.zookeeper_process import ZooKeeperEnsemble, ZooKeeperProcess

__all__ = [
    "LOG_TAIL_LINES",
    "POLL_INTERVAL_S",
    "START_TIMEOUT_S",
    "STOP_TIMEOUT_S",
    "BrokerProcess",
    "RegistryProcess",
    "ServerGroup",
    "ServerProcess",
    "ServerProcessError",
    "ZooKeeperEnsemble",
    "ZooKeeperProcess",
    "find_free_port",
]
