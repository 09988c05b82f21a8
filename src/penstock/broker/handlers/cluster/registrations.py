"""The brokers of the cluster: UnregisterBroker. DescribeCluster lists the brokers."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.session import RequestContext
from penstock.cluster.metadata import Metadata
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class RegistrationPort(Protocol):
    """The parts of the broker that the handler uses."""

    authorizer: Authorizer
    metadata: Metadata


async def unregister_broker(
    broker: RegistrationPort, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Removes the registration of a broker that is gone for good. Its replicas stay listed until an administrator moves
    them.

    An unknown broker gets BROKER_ID_NOT_REGISTERED. There is one version. Kafka leaves the message empty.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=code, error_message=describe(code))
    try:
        await broker.metadata.controller_api.unregister(request.broker_id)
    except ApiError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or describe(error.code))
    return UnregisterBrokerResponse()
