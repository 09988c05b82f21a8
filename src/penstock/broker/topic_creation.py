"""Topics that a use creates: auto-created topics and Penstock's internal topics.

The controller creates topics. A broker that is not the controller asks the controller, one request at a time for each
name, and waits until its own image has the topic: the user of the topic looks for it next.

A program that embeds the broker, such as a test or a notebook, creates topics here, too: no request, no client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from penstock.broker.peers.peer_requests import PeerUnavailableError
from penstock.broker.session import UnanswerableError
from penstock.cluster.decisions.decision import CreateTopicResult, NewTopic, TopicSelector
from penstock.cluster.decisions.internal_topics import internal_topic, is_created_on_demand
from penstock.cluster.decisions.topics import Charge, charge_nothing
from penstock.cluster.metadata import Metadata, answer_each
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.peers.controller import Controller

logger = logging.getLogger(__name__)

# Clients ask again when the answer has no such topic, so no client needs to wait for long.
_ASKING_TIMEOUT_S = 10.0
# A channel apart from in-sync changes, for which writers wait.
_CHANNEL = "topics"
_NOT_ALLOWED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
# The number of names in requests that the controller has not answered. Clients choose the names, and more are not
# remembered.
_MOST_UNDER_WAY = 1_000

# Forwards a request to the controller in a client's name; None where this broker has become the controller.
Forward = Callable[[CreateTopicsRequest], Awaitable[Message | None]]


class TopicCreation:
    def __init__(self, metadata: Metadata, controller: Controller | None = None) -> None:
        """Without `controller` this broker is the only one."""
        self._metadata = metadata
        self._controller = controller
        self._under_way: dict[str, asyncio.Task[dict[str, ErrorCode]]] = {}

    async def close(self) -> None:
        """Gives up the requests that the controller has not answered. Waiting clients ask another broker."""
        tasks = list(dict.fromkeys(self._under_way.values()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def create(
        self, names: Sequence[str], charge: Charge = charge_nothing, forward: Forward | None = None
    ) -> dict[str, ErrorCode]:
        """Errors by name; a topic that another client created meanwhile is no error. A client with a quota is charged
        here, or with `forward` by the controller. A client that joins a creation in progress pays nothing.
        """
        if self._controller is not None and not self._controller.is_here:
            return await self._ask_in_turn(self._controller, names, charge, forward)
        return await self._create_here(names, charge)

    async def ensure(self, name: str) -> None:
        """Creates the topic if it does not exist; the caller looks for it afterwards."""
        if name not in self._metadata.image.topics:
            await self.create([name])

    async def _create_here(self, names: Sequence[str], charge: Charge) -> dict[str, ErrorCode]:
        results = await answer_each(
            self._metadata.create_topics([self._plan(name) for name in names], charge=charge),
            lambda code, message: (CreateTopicResult(name, code, message) for name in names),
        )
        return {result.name: _forgive(result.code) for result in results}

    def _plan(self, name: str) -> NewTopic:
        if is_created_on_demand(name):
            count = len(self._metadata.image.brokers)
            return internal_topic(name, self._metadata.config, count, is_cluster=self._controller is not None)
        return NewTopic(name)

    # ------------------------------------------------------------------------------------ by the controller

    async def _ask_in_turn(
        self, controller: Controller, names: Sequence[str], charge: Charge, forward: Forward | None
    ) -> dict[str, ErrorCode]:
        tasks = {name: self._under_way[name] for name in names if name in self._under_way}
        fresh = [name for name in dict.fromkeys(names) if name not in tasks]
        fresh = fresh[: _MOST_UNDER_WAY - len(self._under_way)]
        if fresh:
            # Other callers wait for the same answer, so it comes also when this caller goes away.
            task = asyncio.ensure_future(self._ask(controller, fresh, charge, forward))
            for name in fresh:
                self._under_way[name] = tasks[name] = task
            task.add_done_callback(lambda _: self._end(fresh))
        if tasks:
            await asyncio.wait(list(dict.fromkeys(tasks.values())))
        answered = {name: task.result()[name] for name, task in tasks.items() if not task.cancelled()}
        # The controller refused the first caller. The refusal does not concern the rights of the callers that waited
        # for its answer.
        refused = [name for name, code in answered.items() if code in _NOT_ALLOWED and name not in fresh]
        if refused:
            answered |= await self._ask(controller, refused, charge, forward)
        return {name: answered.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names}

    def _end(self, names: Sequence[str]) -> None:
        for name in names:
            del self._under_way[name]

    async def _ask(
        self, controller: Controller, names: Sequence[str], charge: Charge, forward: Forward | None
    ) -> dict[str, ErrorCode]:
        """Never raises: waiting callers get an answer without the topic, and ask again."""
        request = CreateTopicsRequest(
            topics=[_creatable(self._plan(name)) for name in names], timeout_ms=int(_ASKING_TIMEOUT_S * 1000)
        )
        try:
            if forward is None:
                answer = await controller.ask(request, _accept, timeout_s=_ASKING_TIMEOUT_S, channel=_CHANNEL)
            else:
                answer = cast("CreateTopicsResponse | None", await forward(request))
        except (PeerUnavailableError, UnanswerableError) as error:
            logger.warning("topics could not be created: %s", error)
            return dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if answer is None:
            return await self._create_here(names, charge)
        errors = {topic.name: _forgive(ErrorCode(topic.error_code)) for topic in answer.topics}
        errors = {name: errors.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in names}
        await self._learn(controller, [name for name, code in errors.items() if code is ErrorCode.NONE])
        return errors

    async def _learn(self, controller: Controller, names: Sequence[str]) -> None:
        def are_known() -> bool:
            return all(name in self._metadata.image.topics for name in names)

        await controller.wait_until(are_known)


# The errors for users of a topic. A delayed topic, because its client has used its quota up or because the controller
# did not answer in time, does not exist yet, as in Kafka: clients ask again.
_TOLD = {
    ErrorCode.TOPIC_ALREADY_EXISTS: ErrorCode.NONE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def _forgive(code: ErrorCode) -> ErrorCode:
    return _TOLD.get(code, code)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )


async def _accept(answer: CreateTopicsResponse) -> CreateTopicsResponse | None:
    is_controller = all(topic.error_code != ErrorCode.NOT_CONTROLLER for topic in answer.topics)
    return answer if is_controller else None


async def create_topic(metadata: Metadata, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Raises ApiError, also where the topic exists."""
    (result,) = await metadata.create_topics([NewTopic(name, partitions, -1, (), tuple(configs.items()))])
    if result.code:
        raise ApiError(result.code, result.message)


async def delete_topic(metadata: Metadata, name: str) -> None:
    """Raises ApiError, but not where there is no such topic."""
    (result,) = await metadata.delete_topics([TopicSelector(name)])
    if result.code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise ApiError(result.code, result.message)
