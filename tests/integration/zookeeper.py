"""A ZooKeeper for the tests of the store, and where in it each test works."""

from __future__ import annotations

import itertools
from typing import Any

from penstock.cluster.store.zookeeper.settings import ConnectString, ZooKeeperSettings
from penstock.testing.processes import ZooKeeperProcess

# The shortest that the server gives.
SESSION_TIMEOUT_MS = 1_000
# For tests in which no session is to end: a busy machine keeps its heartbeats back for seconds.
LONG_SESSION_MS = 20_000

_roots = itertools.count()


def own_settings(server: ZooKeeperProcess, **settings: Any) -> ZooKeeperSettings:
    """A part of the tree that no other test uses."""
    return settings_for(own_connect(server), **settings)


def own_connect(server: ZooKeeperProcess) -> str:
    """For `zookeeper.connect`."""
    return f"{server.connect}/test/{next(_roots)}"


def settings_for(connect: str, **settings: Any) -> ZooKeeperSettings:
    given = {"session_timeout_ms": SESSION_TIMEOUT_MS, **settings}
    return ZooKeeperSettings(connect=ConnectString.parse(connect), **given)
