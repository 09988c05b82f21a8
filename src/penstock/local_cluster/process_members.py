"""Brokers and ZooKeeper as processes of their own, in a process group of their own: Ctrl-C at the terminal reaches the
program that started them alone, which stops them in the right order. When the program dies without doing that, a
guardian does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.core.guardian import Guardian
from penstock.core.properties import format_properties
from penstock.local_cluster.cluster_security import guard_zookeeper
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.members import PlacedBroker
from penstock.local_cluster.ports import is_free
from penstock.local_cluster.settings import BrokerPlace, broker_properties
from penstock.log.formats import names
from penstock.processes.lock_holder import NotEndedError, end_holder, find_holder
from penstock.processes.server_process import ServerProcess
from penstock.processes.zookeeper_process import ZooKeeperProcess
from penstock.security.private_files import write_private

_HEAD = "# Written anew at each start of the cluster. `penstock broker start --config` takes this file.\n"


_BROKERS_END_FIRST = 1  # of two stages: they have something to write to ZooKeeper


class ProcessBroker(PlacedBroker):
    def __init__(self, place: BrokerPlace, properties: dict[str, str]) -> None:
        super().__init__(place, properties)
        self._process = ServerProcess(
            f"broker {place.node_id}",
            [
                *(sys.executable, "-m", "penstock.cli.main", "broker", "start"),
                *("--config", str(place.properties_path)),
            ],
            host=place.host,
            port=place.port,
            log_path=place.log_path,
        )
        self._process.process_group = 0
        self._is_paused = False

    def guard_by(self, guardian: Guardian) -> None:
        self._process.guardian, self._process.guardian_stage = guardian, _BROKERS_END_FIRST

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process.is_running else None

    @property
    def log_path(self) -> Path:
        return self._place.log_path

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    @property
    def is_paused(self) -> bool:
        return self._is_paused and self._process.is_running

    @property
    def unasked_end(self) -> str:
        return self._process.unasked_end

    def spawn(self) -> None:
        self._is_paused = False
        write_private(self._place.properties_path, (_HEAD + format_properties(self._properties)).encode())
        self._process.spawn()

    def wait_until_ready(self) -> None:
        self._process.wait_until_ready()

    def stop(self) -> None:
        self.resume()
        self._process.terminate()

    def take_over(self) -> None:
        if self._process.is_running or is_free(self.host, self.port):
            return
        lock = self._place.data_dir / names.LOCK
        pid = find_holder(lock)
        by_hand = f"penstock broker start --config {self._place.properties_path}"
        if pid is None:
            reason = f"somebody else has started it, or {self.bootstrap_servers} is taken"
            raise ClusterError(f"{reason}. End that process, start the broker again ({by_hand}), and leave it out here")
        try:
            end_holder(lock, pid)
        except NotEndedError as error:
            raise ClusterError(f"it was started by hand, and {error}. End it, then run: {by_hand}") from error

    def kill(self) -> None:
        self._process.kill()

    def pause(self) -> None:
        self._process.pause()
        self._is_paused = True

    def resume(self) -> None:
        """Also where another user has paused it: a stopped process would not act on SIGTERM."""
        self._process.resume()
        self._is_paused = False


class ProcessMembers:
    """`zookeeper` is this cluster's own, or None where `connect` names another one. `is_guarded`: only the brokers can
    use it.
    """

    def __init__(
        self,
        places: Sequence[BrokerPlace],
        shared: dict[str, str],
        zookeeper: ZooKeeperProcess | None,
        connect: str,
        *,
        is_guarded: bool = False,
    ) -> None:
        self.zookeeper = zookeeper
        self.connect = connect
        self._is_guarded = is_guarded
        if zookeeper is not None:
            zookeeper.process_group = 0
        self._guardian: Guardian | None = None
        self._brokers = [ProcessBroker(place, broker_properties(place, shared, connect)) for place in places]
        self._first_properties = broker_properties(places[0], shared, connect)

    @property
    def brokers(self) -> Sequence[ProcessBroker]:
        return self._brokers

    def start(self) -> None:
        """The brokers load their code while ZooKeeper does."""
        self._guardian = Guardian()
        for broker in self._brokers:
            broker.guard_by(self._guardian)
        if self.zookeeper is not None:
            self.zookeeper.guardian = self._guardian
            self.zookeeper.spawn()
        for broker in self._brokers:
            broker.spawn()
        if self.zookeeper is not None:
            self.zookeeper.wait_until_ready()
            if self._is_guarded:
                guard_zookeeper(self._first_properties)
        for broker in self._brokers:
            broker.wait_until_ready()

    def stop_store(self) -> None:
        if self.zookeeper is not None and self.zookeeper.is_running:
            self.zookeeper.terminate()

    def end(self) -> None:
        for broker in self._brokers:
            broker.kill()
        if self.zookeeper is not None:
            self.zookeeper.kill()
        if self._guardian is not None:
            self._guardian.close()
