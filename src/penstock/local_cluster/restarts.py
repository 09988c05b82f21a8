"""Restarts of brokers of a cluster on this machine: of one, and of one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.admin import blocking_admin
from penstock.client.addresses import Address
from penstock.client.security import ClientSecurity
from penstock.client.versioned_client import VersionedClient
from penstock.core.properties import ConfigMapping
from penstock.health.measurements import LOOK
from penstock.health.rolling_restart import Rolling, RollingError, plan_order
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.members import ClusterBroker
from penstock.protocol.errors import ApiError

_NAME = "penstock-cluster"


class Brokers(Protocol):
    @property
    def brokers(self) -> Sequence[ClusterBroker]: ...

    def broker(self, node_id: int) -> ClusterBroker: ...


def restart_broker(broker: ClusterBroker, config: ConfigMapping) -> None:
    """A clean stop, then a start with other settings; returns before the broker is ready. A broker that has ended is
    started, and one that was started by hand is ours from now on. Settings that the broker would refuse change nothing.
    """
    broker.configure(config)
    if broker.is_running:
        broker.stop()
    else:
        broker.take_over()
    broker.spawn()


def restart_rolling(
    cluster: Brokers, config: ConfigMapping, load_security: Callable[[], ClientSecurity], *, may_interrupt: bool
) -> None:
    def connect(address: Address, timeout_s: float) -> VersionedClient:
        return VersionedClient.open(
            address,
            client_id=_NAME,
            software=_NAME,
            timeout_s=timeout_s,
            security=load_security(),
            answer_timeout_s=timeout_s,
        )

    servers = [(broker.host, broker.port) for broker in cluster.brokers]

    def restart(node_id: int) -> None:
        broker = cluster.broker(node_id)
        restart_broker(broker, config)
        broker.wait_until_ready()

    def tell(node_id: int, what: str) -> None:
        return None

    try:
        with blocking_admin.connect(servers, security=load_security, client_id=_NAME) as admin:
            rolling = Rolling(admin, connect, restart, tell, is_careless=may_interrupt)
            rolling.run(plan_order(admin.read_wish(LOOK)))
    except RollingError as error:
        left = ", ".join(map(str, error.left))
        raise ClusterError(
            f"the restart stopped at broker {error.left[0]}: {error.message}", f"Left: {left}."
        ) from None
    except (OSError, ApiError) as error:
        raise ClusterError(str(error)) from error
