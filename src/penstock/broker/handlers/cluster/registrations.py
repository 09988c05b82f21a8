"""Which brokers belong to the cluster: UnregisterBroker. DescribeCluster tells of them."""

from __future__ import annotations

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import RequestContext
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def unregister_broker(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Forgets a broker that is gone for good. Its replicas stay where they are listed until somebody moves them.

    BROKER_ID_NOT_REGISTERED for a broker that nobody knows. There is one version. Kafka leaves the message empty.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=code, error_message=describe(code))
    try:
        await broker.metadata.duties.unregister(request.broker_id)
    except ApiError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or describe(error.code))
    return UnregisterBrokerResponse()
