"""Telling a cluster that a broker is gone for good."""

from __future__ import annotations

from penstock.cli.access.cluster_client import Cluster
from penstock.cli.access.cluster_now import ask_controller
from penstock.cli.access.raw_client import check_error
from penstock.cli.plans.assignments import ClusterNow
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def unregister_broker(cluster: Cluster, now: ClusterNow, broker: int) -> None:
    """The request may be sent twice. A broker that was registered a moment ago, and is not, was unregistered."""
    request = UnregisterBrokerRequest(broker_id=broker)
    response = ask_controller(cluster, request, UnregisterBrokerResponse)
    if response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED and broker in now.away:
        return
    check_error(response.error_code, f"broker {broker}", response.error_message or None)
