"""Topics that come into being because somebody uses them: auto-created ones and our own internal ones.

The controller creates topics. A broker that is not the controller asks the controller, for each name once at a time,
and waits until it knows of the topic itself: whoever asked for the topic looks for it next.

Also topics that the program around the broker wants, for a test or a notebook: no request, no client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from penstock.broker.peers.asking import PeerUnavailableError
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

if TYPE_CHECKING:  # a broker that is alone does without
    from penstock.broker.peers.controller import Controller

logger = logging.getLogger(__name__)

# Clients ask again when they are told that there is no such topic, so nobody needs to wait for long.
_ASKING_TIMEOUT_S = 10.0
# Apart from in-sync changes, which writers wait for.
_CHANNEL = "topics"
_NOT_ALLOWED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
# Names for which the controller has been asked and has not answered. Clients choose them, and more are not remembered.
_MOST_UNDER_WAY = 1_000

# Passes a request on to the controller in a client's name; None where this broker has become the controller.
Forward = Callable[[CreateTopicsRequest], Awaitable[Message | None]]


class TopicCreation:
    def __init__(self, metadata: Metadata, controller: Controller | None = None) -> None:
        """Without `controller` this broker is the only one."""
        self._metadata = metadata
        self._controller = controller
        self._under_way: dict[str, asyncio.Task[dict[str, ErrorCode]]] = {}

    async def close(self) -> None:
        """What the controller has not answered is given up. Whoever still waits asks another broker."""
        tasks = list(dict.fromkeys(self._under_way.values()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def create(
        self, names: Sequence[str], charge: Charge = charge_nothing, forward: Forward | None = None
    ) -> dict[str, ErrorCode]:
        """Errors by name; a topic that somebody else created meanwhile is no error. A client with a quota is charged
        here, or with `forward` by the controller. Who wants a topic that is under way pays nothing.
        """
        if self._controller is not None and not self._controller.is_here:
            return await self._ask_in_turn(self._controller, names, charge, forward)
        return await self._create_here(names, charge)

    async def ensure(self, name: str) -> None:
        """Creates the topic if it is not there; whoever needs it looks for it afterwards."""
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
            # Others wait for the same answer, so it comes also when this caller goes away.
            task = asyncio.ensure_future(self._ask(controller, fresh, charge, forward))
            for name in fresh:
                self._under_way[name] = tasks[name] = task
            task.add_done_callback(lambda _: self._end(fresh))
        if tasks:
            await asyncio.wait(list(dict.fromkeys(tasks.values())))
        answered = {name: task.result()[name] for name, task in tasks.items() if not task.cancelled()}
        # The controller refused who asked first. That says nothing about the rights of those who waited for its answer.
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
        """Never raises: those who wait are told of a topic that is not there, and ask again."""
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


# What whoever uses a topic is told. A topic that has to wait, because its client has used its quota up or because the
# controller did not answer in time, is not there yet, as in Kafka: clients ask again.
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
