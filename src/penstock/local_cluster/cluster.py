"""Several brokers as one cluster on this machine, for tests, for trying things out, and for `penstock cluster start`.

with penstock.Cluster(brokers=3) as cluster:
    cluster.create_topic("orders", partitions=6, replication_factor=3)
    Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    cluster.kill(cluster.controller_id())
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from penstock.admin import blocking_admin
from penstock.admin.blocking_admin import Admin
from penstock.admin.changes.topics import NewTopic
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.core.properties import ConfigMapping, as_properties
from penstock.local_cluster.cluster_plan import ClusterWish, make_members
from penstock.local_cluster.cluster_security import find_setup
from penstock.local_cluster.directory import ClusterDirectory
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.members import ClusterBroker, Members
from penstock.local_cluster.restarts import restart_rolling
from penstock.local_cluster.state import ClusterCounts, why_not_in_sync, why_not_ready
from penstock.protocol.errors import ErrorCode
from penstock.security_setup.setup import SecureSetup

Result = TypeVar("Result")

# Long enough for an election and a recovery on a busy machine; what can never come is noticed otherwise.
READY_TIMEOUT_S = 60.0
_POLL_S = 0.02
# A broker on this machine answers in milliseconds. One that is paused, or hangs, must not hold up what is shown.
_ANSWER_TIMEOUT_S = 2.0
# How long a change waits for brokers that are all away.
_PATIENCE_S = 30.0
_NOT_RUNNING = "the cluster is not running: use it inside its `with` block, or call start() first"


class Cluster:
    """Data goes to `data_dir`, where the next start finds it, or to a temporary directory that goes with the cluster.

    With `store="zookeeper"` the brokers and their ZooKeeper are processes, which can be killed and paused. `zookeeper`
    names a ZooKeeper that is there already. With `store="memory"` the brokers share a loop and a store of this process.
    `port` is the first broker's; the others follow. With port 0 the ports are those of the last start, or free ones.
    With `secure` clients need TLS and a login: `client_config` has both. A cluster that was secure once stays so.
    """

    def __init__(
        self,
        brokers: int = 3,
        data_dir: str | Path | None = None,
        config: ConfigMapping | None = None,
        store: Literal["zookeeper", "memory"] = "zookeeper",
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        zookeeper: str | None = None,
        secure: bool = False,
    ) -> None:
        if store == "memory" and (data_dir is not None or zookeeper is not None):
            raise ClusterError(
                "a cluster with its store in memory keeps nothing", 'Leave data_dir out, or take store="zookeeper".'
            )
        self._wish = ClusterWish(brokers, port, host, as_properties(config), store, zookeeper, secure)
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._directory: ClusterDirectory | None = None
        self._members: Members | None = None
        self._admin: Admin | None = None
        self.setup: SecureSetup | None = None  # from `prepare` on, where the cluster is secure

    # ---------------------------------------------------------------------------------------- start and end

    def start(self) -> None:
        """Returns when all brokers know of each other."""
        self.prepare()
        try:
            self.members.start()
            self.wait_until_ready()
        except BaseException:
            self.abandon()
            raise

    def prepare(self) -> None:
        """Takes the directory and the ports. Nothing runs yet."""
        if self._members is not None:
            return
        directory = ClusterDirectory.open(self._data_dir)
        try:
            self.setup = find_setup(directory, is_wanted=self._wish.is_secure)
            members = make_members(directory, self._wish._replace(is_secure=self.setup is not None))
            self._admin = blocking_admin.connect(
                [(broker.host, broker.port) for broker in members.brokers],
                security=functools.partial(_load_security, self.setup),
                client_id="penstock-cluster",
                timeout_s=_ANSWER_TIMEOUT_S,
                patience_s=_PATIENCE_S,
            )
        except BaseException:
            directory.close()
            raise
        self._directory, self._members = directory, members

    def stop(self) -> None:
        """Stops one broker after the other, the controller last. Temporary brokers are not worth that: they are killed.
        ClusterError when a broker had ended before.
        """
        if self._members is None or self._directory is None:
            return
        brokers = self._members.brokers
        try:
            ended = [broker.unasked_end for broker in brokers if broker.unasked_end]
            if not self._directory.is_temporary:
                for broker in stopping_order(self):
                    broker.stop()
                self._members.stop_store()
        finally:
            self.abandon()
        if ended:
            raise ClusterError("\n".join(ended))

    def abandon(self) -> None:
        """Ends all that runs, at once."""
        members, self._members = self._members, None
        directory, self._directory = self._directory, None
        admin, self._admin = self._admin, None
        with contextlib.ExitStack() as ends:
            if directory is not None:
                ends.callback(directory.close)
            if admin is not None:
                ends.callback(admin.close)
            if members is not None:  # first: a broker that has ended keeps no connection waiting
                ends.callback(members.end)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except Exception as problem:
            # The failure that is already under way comes first; how a broker ended may be its cause.
            if error is None:
                raise
            error.add_note(str(problem))

    # ---------------------------------------------------------------------------------------- looking

    @property
    def members(self) -> Members:
        if self._members is None:
            raise RuntimeError(_NOT_RUNNING)
        return self._members

    @property
    def brokers(self) -> Sequence[ClusterBroker]:
        return self.members.brokers

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, also those that do not run now."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def client_config(self) -> dict[str, Any]:
        """Settings for confluent-kafka's clients, as the administrator where the cluster is secure."""
        if self.setup is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self.setup.client_config(self.bootstrap_servers)

    def broker(self, node_id: int) -> ClusterBroker:
        for broker in self.brokers:
            if broker.node_id == node_id:
                return broker
        raise ClusterError(
            f"there is no broker {node_id}", f"There are {', '.join(str(each.node_id) for each in self.brokers)}."
        )

    def states(self, *, with_ended: bool = False) -> dict[int, ClusterCounts | None]:
        """Each broker's view of the cluster; None where it does not answer. A broker that has ended may run again,
        started by another user: `with_ended` asks it too.
        """
        asked = {
            broker.node_id: (broker.host, broker.port)
            for broker in self.brokers
            if (broker.is_running or with_ended) and not broker.is_paused
        }
        views = _admin_of(self).nodes.views(asked.values()).found
        return {
            node_id: ClusterCounts.of(views[address]) if address in views else None
            for node_id, address in asked.items()
        }

    def controller_id(self) -> int:
        """Waits for the election of a controller that runs."""

        def look() -> int:
            running = {broker.node_id for broker in self.brokers if broker.is_running and not broker.is_paused}
            for state in self.states().values():
                if state is not None and state.controller_id in running:
                    return state.controller_id
            raise _NotYetError("no broker names a controller that runs")

        return _wait_for(look, READY_TIMEOUT_S, "there is no controller")

    def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Until all brokers that run, and are not paused, know of each other and of no other broker, name one
        controller, and every partition that can have a leader has one.
        """
        _wait_until(self, why_not_ready, timeout_s, "the cluster is not ready")

    def wait_until_in_sync(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Until the cluster is ready and every replica of every partition is in sync."""
        _wait_until(self, why_not_in_sync, timeout_s, "the cluster is not in sync")

    # ---------------------------------------------------------------------------------------- doing

    def kill(self, node_id: int) -> None:
        """SIGKILL: a crash. Processes only."""
        self.broker(node_id).kill()

    def stop_broker(self, node_id: int) -> None:
        """A controlled shutdown; returns when the broker has ended."""
        self.broker(node_id).stop()

    def start_broker(self, node_id: int) -> None:
        """On its old address and data; returns when the broker accepts connections."""
        broker = self.broker(node_id)
        broker.spawn()
        broker.wait_until_ready()

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the broker hangs, and its connections stay open. Processes only."""
        self.broker(node_id).pause()

    def resume(self, node_id: int) -> None:
        self.broker(node_id).resume()

    def restore(self) -> None:
        """Resumes the brokers that are paused, starts those that do not run, and waits until the cluster is ready."""
        for broker in self.brokers:
            if broker.is_paused:
                broker.resume()
        missing = [broker for broker in self.brokers if not broker.is_running]
        for broker in missing:
            broker.spawn()
        for broker in missing:
            broker.wait_until_ready()
        self.wait_until_ready()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: ConfigMapping | None = None,
    ) -> None:
        """Returns when all brokers know the topic. ApiError when it is refused."""
        topic = NewTopic(name, partitions, replication_factor, as_properties(config))
        refused = _admin_of_controller(self).create_topics([topic])
        if name in refused:
            raise refused[name]

        def judge(states: Mapping[int, ClusterCounts | None]) -> str:
            late = [str(node_id) for node_id, state in states.items() if state is None or name not in state.topics]
            return why_not_ready(states) or (f"brokers {', '.join(late)} do not know it" if late else "")

        _wait_until(self, judge, READY_TIMEOUT_S, f"topic {name} is not there")

    def delete_topic(self, name: str) -> None:
        """ApiError when the brokers refuse that, but not where there is no such topic."""
        refused = _admin_of_controller(self).delete_topics([name])
        if name in refused and refused[name].code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise refused[name]

    def restart(self, config: ConfigMapping | None = None, *, may_interrupt: bool = False) -> None:
        """Restarts one broker after the other, the controller last, with `config` beside the settings that they have.
        Clients go on. ClusterError where that cannot be: a partition has no other replica, say, or a broker is gone.
        With `may_interrupt` partitions may stand still while their broker restarts.
        """
        load_security = functools.partial(_load_security, self.setup)
        restart_rolling(self, as_properties(config), load_security, may_interrupt=may_interrupt)


def _admin_of(cluster: Cluster) -> Admin:
    if cluster._admin is None:
        raise RuntimeError(_NOT_RUNNING)
    return cluster._admin


def _admin_of_controller(cluster: Cluster) -> Admin:
    """When there is a controller that runs. A change would wait in vain on the open connection to a controller that is
    paused; without a connection it finds the next one.
    """
    cluster.controller_id()
    admin = _admin_of(cluster)
    if any(broker.is_paused for broker in cluster.brokers):
        admin.run(admin.core.brokers.hang_up())
    return admin


def _load_security(setup: SecureSetup | None) -> ClientSecurity:
    """Called for each new connection: certificates and authorities change while a cluster runs."""
    return PLAINTEXT if setup is None else setup.client_security()


class _NotYetError(Exception):
    """The awaited state is not there yet."""


def _wait_until(
    cluster: Cluster, judge: Callable[[Mapping[int, ClusterCounts | None]], str], timeout_s: float, what: str
) -> None:
    def look() -> None:
        for broker in cluster.brokers:
            if broker.unasked_end:
                raise ClusterError(broker.unasked_end)
        problem = judge(cluster.states())
        if problem:
            raise _NotYetError(problem)

    _wait_for(look, timeout_s, what)


def _wait_for(look: Callable[[], Result], timeout_s: float, what: str) -> Result:
    try:
        return Retrying(RetryPolicy(timeout_s, _POLL_S, _POLL_S)).run(look, _NotYetError, lambda _: Outlook.PASSING)
    except _NotYetError as problem:
        raise ClusterError(f"{what} after {timeout_s:g} s: {problem}") from None


def stopping_order(cluster: Cluster) -> list[ClusterBroker]:
    """The brokers that run, the controller last: another one would have to take over for a moment."""
    running = [broker for broker in cluster.brokers if broker.is_running]
    controller = next((state.controller_id for state in cluster.states().values() if state is not None), None)
    return sorted(running, key=lambda broker: broker.node_id == controller)
