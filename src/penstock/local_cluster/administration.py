"""Topics of a cluster, made and deleted by its controller. A controller that goes meanwhile is no error: the next one
is asked, and finds what the one before has done (`client.own_work`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeVar

from penstock.client.addresses import Address
from penstock.client.retrying import Outlook, Retrying, RetryPolicy
from penstock.client.sendings import Sendings
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
CONTROLLER_AWAY = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


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
    sendings = Sendings()

    def create() -> None:
        (result,) = clients.ask(find_controller(), request, CreateTopicsResponse, _TIMEOUT_S, sendings).topics
        if result.error_code:
            sendings.refused([result.error_code])
            raise ApiError(ErrorCode(result.error_code), result.error_message)

    ask_patiently(create, _PATIENCE)


def delete_topic(clients: BrokerClients, find_controller: FindController, name: str) -> None:
    """A topic that is not there is no error."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=int(_TIMEOUT_S * 1000)
    )

    def delete() -> None:
        (result,) = clients.ask(find_controller(), request, DeleteTopicsResponse, _TIMEOUT_S).responses
        if result.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise ApiError(ErrorCode(result.error_code), result.error_message)

    ask_patiently(delete, _PATIENCE)


def ask_patiently(
    work: Callable[[], Result], policy: RetryPolicy, passing: Container[ErrorCode] = CONTROLLER_AWAY
) -> Result:
    """`work` again while nobody answers, or the answer is one of these."""

    def judge(error: Exception) -> Outlook:
        is_final = isinstance(error, ApiError) and error.code not in passing
        return Outlook.FINAL if is_final else Outlook.PASSING

    return Retrying(policy).run(work, (OSError, ApiError), judge)
