"""The response that carries the error of a whole request, for each forwarded API.

Where a response has no error of its own, each resource that the request names gets the error, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_client_quotas, alter_configs, incremental_alter_configs
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from penstock.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from penstock.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from penstock.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


def refuse(request: Message, code: ErrorCode, message: str) -> Message:
    return _REFUSALS[type(request)](request, code, message)


def refuse_elections(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _create_topics(request: CreateTopicsRequest, code: ErrorCode, message: str) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=code, error_message=message) for name in names]
    )


def _delete_topics(request: DeleteTopicsRequest, code: ErrorCode, message: str) -> DeleteTopicsResponse:
    """Versions up to 5 name topics, later ones topics or ids; the other list is empty."""
    return DeleteTopicsResponse(
        responses=[
            *(DeletableTopicResult(name=name, error_code=code, error_message=message) for name in request.topic_names),
            *(
                DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code, error_message=message)
                for each in request.topics
            ),
        ]
    )


def _create_partitions(request: CreatePartitionsRequest, code: ErrorCode, message: str) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=name, error_code=code, error_message=message) for name in names]
    )


def _alter_configs(
    request: alter_configs.AlterConfigsRequest, code: ErrorCode, message: str
) -> alter_configs.AlterConfigsResponse:
    resources = dict.fromkeys((each.resource_type, each.resource_name) for each in request.resources)
    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource_type, resource_name=name
            )
            for resource_type, name in resources
        ]
    )


def _incremental_alter_configs(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, code: ErrorCode, message: str
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    resources = dict.fromkeys((each.resource_type, each.resource_name) for each in request.resources)
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource_type, resource_name=name
            )
            for resource_type, name in resources
        ]
    )


def _create_acls(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    refused = [AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    return CreateAclsResponse(results=refused)


def _delete_acls(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    refused = [DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
    return DeleteAclsResponse(filter_results=refused)


def _alter_reassignments(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    """Each partition carries the error of the whole response, as in Kafka."""
    topics = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=code, error_message=message
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message, responses=topics)


def _list_reassignments(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> ListPartitionReassignmentsResponse:
    """As in Kafka the response repeats the partitions that the client has named."""
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message, topics=topics)


def _alter_users(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message) for user in users]
    )


def refuse_quotas(
    request: alter_client_quotas.AlterClientQuotasRequest, code: ErrorCode, message: str
) -> alter_client_quotas.AlterClientQuotasResponse:
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.EntryData(
                error_code=code,
                error_message=message,
                entity=[
                    alter_client_quotas.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


# Each function takes the request of its row's key.
_REFUSALS: Mapping[type[Message], Callable[[Any, ErrorCode, str], Message]] = {
    CreateTopicsRequest: _create_topics,
    DeleteTopicsRequest: _delete_topics,
    CreatePartitionsRequest: _create_partitions,
    alter_configs.AlterConfigsRequest: _alter_configs,
    incremental_alter_configs.IncrementalAlterConfigsRequest: _incremental_alter_configs,
    CreateAclsRequest: _create_acls,
    DeleteAclsRequest: _delete_acls,
    AlterUserScramCredentialsRequest: _alter_users,
    ElectLeadersRequest: refuse_elections,
    AlterPartitionReassignmentsRequest: _alter_reassignments,
    alter_client_quotas.AlterClientQuotasRequest: refuse_quotas,
    CreateDelegationTokenRequest: lambda _, code, _message: CreateDelegationTokenResponse(error_code=code),
    RenewDelegationTokenRequest: lambda _, code, _message: RenewDelegationTokenResponse(error_code=code),
    ExpireDelegationTokenRequest: lambda _, code, _message: ExpireDelegationTokenResponse(error_code=code),
    UpdateFeaturesRequest: lambda _, code, message: UpdateFeaturesResponse(error_code=code, error_message=message),
    UnregisterBrokerRequest: lambda _, code, message: UnregisterBrokerResponse(error_code=code, error_message=message),
    ListPartitionReassignmentsRequest: _list_reassignments,
}
