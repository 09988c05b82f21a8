"""Topics of a cluster, made and deleted by its controller. A controller that goes meanwhile is no error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.client.addresses import Address
from penstock.client.retrying import Outlook, Retrying, RetryPolicy
from penstock.core.properties import ConfigMapping, as_properties
from penstock.local_cluster.asking import BrokerClients
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

Result = TypeVar("Result")

FindController = Callable[[], Address]

_TIMEOUT_S = 30.0
_PATIENCE = RetryPolicy(_TIMEOUT_S, 0.05, 0.5)
_BROKERS_DEFAULT = -1
# The controller moved, or is not sure of its place: another attempt reaches the next one.
_PASSING = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def create_topic(
    clients: BrokerClients,
    find_controller: FindController,
    name: str,
    partitions: int,
    replication_factor: int | None,
    config: ConfigMapping | None,
) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=_BROKERS_DEFAULT if replication_factor is None else replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in as_properties(config).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(_TIMEOUT_S * 1000))
    attempts = Retrying(_PATIENCE)

    def create() -> None:
        (result,) = clients.ask(find_controller(), request, CreateTopicsResponse, _TIMEOUT_S).topics
        is_our_own = result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and attempts.attempts > 0
        if result.error_code and not is_our_own:
            raise ApiError(ErrorCode(result.error_code), result.error_message)

    _run(attempts, create)


def delete_topic(clients: BrokerClients, find_controller: FindController, name: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=int(_TIMEOUT_S * 1000)
    )

    def delete() -> None:
        (result,) = clients.ask(find_controller(), request, DeleteTopicsResponse, _TIMEOUT_S).responses
        if result.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise ApiError(ErrorCode(result.error_code), result.error_message)

    _run(Retrying(_PATIENCE), delete)


def _run(attempts: Retrying, work: Callable[[], Result]) -> Result:
    return attempts.run(work, (OSError, ApiError), _judge)


def _judge(error: Exception) -> Outlook:
    is_final = isinstance(error, ApiError) and error.code not in _PASSING
    return Outlook.FINAL if is_final else Outlook.PASSING
