"""Topics that a broker wants and the controller creates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from penstock.broker import topic_creation
from penstock.broker.peers.controller import Controller
from penstock.broker.peers.peers import Peers
from penstock.broker.topic_creation import Forward, TopicCreation
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.time.backoff import Backoff
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tests.unit.broker.harness import topic_image
from tests.unit.broker.peers.links import Network
from tests.unit.broker.peers.pair import View
from tests.waiting import until

if TYPE_CHECKING:
    from penstock.cluster.metadata import Metadata


class Rig:
    """This broker is 1; 2 is the controller, which learns at once and tells this broker when the test says so."""

    def __init__(self) -> None:
        self.network = Network()
        self.network.add(1)
        self.controller = self.network.add(2, answer=self._create)
        self.view = View(self.network.image)
        self.view.publish(controller_id=2)
        self.view.config = BrokerConfig.parse({})  # type: ignore[attr-defined]  # the metadata has it
        self.peers = Peers(1, self.network.find, self.network.connect, Random(1).random, Backoff(0.0, 0.0))
        self.creation = TopicCreation(
            cast("Metadata", self.view), Controller(1, self.peers, self.view, Random(1).random)
        )
        self.code = ErrorCode.NONE
        self.asked: list[CreateTopicsRequest] = []

    def _create(self, request: Message) -> CreateTopicsResponse:
        assert isinstance(request, CreateTopicsRequest)
        self.asked.append(request)
        topics = [CreatableTopicResult(name=each.name, error_code=self.code) for each in request.topics]
        return CreateTopicsResponse(topics=topics)

    def learn(self, *names: str) -> None:
        self.view.publish(topics={**self.view.image.topics, **{name: topic_image(name) for name in names}})


def run(scene: Callable[[Rig], Awaitable[None]]) -> None:
    async def whole() -> None:
        rig = Rig()
        try:
            async with asyncio.timeout(20):
                await scene(rig)
        finally:
            await rig.peers.close()

    asyncio.run(whole())


def test_controller_is_asked_once_when_many_want_the_same_topic() -> None:
    async def scene(rig: Rig) -> None:
        wanting = [asyncio.ensure_future(rig.creation.create(["orders"])) for _ in range(10)]
        await until(lambda: rig.asked != [])
        wanting.append(asyncio.ensure_future(rig.creation.create(["orders", "other"])))
        await until(lambda: len(rig.asked) == 2)
        assert not any(each.done() for each in wanting)
        rig.learn("orders", "other")
        results = await asyncio.gather(*wanting)
        assert results == [{"orders": ErrorCode.NONE}] * 10 + [{"orders": ErrorCode.NONE, "other": ErrorCode.NONE}]
        assert [[topic.name for topic in request.topics] for request in rig.asked] == [["orders"], ["other"]]

    run(scene)


def test_others_are_answered_when_the_one_who_asked_first_goes_away() -> None:
    async def scene(rig: Rig) -> None:
        first = asyncio.ensure_future(rig.creation.create(["orders"]))
        await until(lambda: rig.asked != [])
        second = asyncio.ensure_future(rig.creation.create(["orders"]))
        await asyncio.sleep(0)
        first.cancel()
        rig.learn("orders")
        assert await second == {"orders": ErrorCode.NONE}
        assert len(rig.asked) == 1

    run(scene)


def test_nothing_is_left_under_way_when_the_broker_stops_while_the_controller_is_silent() -> None:
    async def scene(rig: Rig) -> None:
        rig.controller.is_silent = True
        waiting = asyncio.ensure_future(rig.creation.create(["orders"]))
        await until(lambda: any(link.sent for link in rig.controller.links))
        await rig.creation.close()
        assert await waiting == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert {task for task in asyncio.all_tasks() if "TopicCreation" in repr(task)} == set()

    run(scene)


def test_error_is_told_when_the_controller_refuses() -> None:
    async def scene(rig: Rig) -> None:
        rig.code = ErrorCode.INVALID_REPLICATION_FACTOR
        assert await rig.creation.create(["orders"]) == {"orders": ErrorCode.INVALID_REPLICATION_FACTOR}
        assert await rig.creation.create(["orders"]) == {"orders": ErrorCode.INVALID_REPLICATION_FACTOR}
        assert len(rig.asked) == 2

    run(scene)


def test_whoever_waited_asks_for_itself_when_the_controller_refuses_the_first() -> None:
    async def scene(rig: Rig) -> None:
        asked: list[str] = []
        may_answer = asyncio.Event()

        def by(client: str, code: ErrorCode) -> Forward:
            async def forward(request: CreateTopicsRequest) -> CreateTopicsResponse:
                asked.append(client)
                await may_answer.wait()
                topics = [CreatableTopicResult(name=each.name, error_code=code) for each in request.topics]
                return CreateTopicsResponse(topics=topics)

            return forward

        not_allowed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        clients = {"stranger": not_allowed, "alice": ErrorCode.NONE, "mallory": not_allowed}
        wanting = [
            asyncio.ensure_future(rig.creation.create(["orders"], forward=by(client, code)))
            for client, code in clients.items()
        ]
        await until(lambda: asked == ["stranger"])
        rig.learn("orders")
        may_answer.set()
        assert await asyncio.gather(*wanting) == [{"orders": code} for code in clients.values()]
        assert asked == list(clients)

    run(scene)


def test_topic_is_there_when_another_broker_had_it_created() -> None:
    async def scene(rig: Rig) -> None:
        rig.code = ErrorCode.TOPIC_ALREADY_EXISTS
        wanting = asyncio.ensure_future(rig.creation.create(["orders"]))
        await until(lambda: rig.asked != [])
        rig.learn("orders")
        assert await wanting == {"orders": ErrorCode.NONE}

    run(scene)


def test_internal_topic_has_its_shape_when_the_controller_creates_it() -> None:
    async def scene(rig: Rig) -> None:
        wanting = asyncio.ensure_future(rig.creation.ensure(CONSUMER_OFFSETS))
        await until(lambda: rig.asked != [])
        (topic,) = rig.asked[0].topics
        assert (topic.num_partitions, topic.replication_factor) == (50, 3)
        assert ("cleanup.policy", "compact") in [(config.name, config.value) for config in topic.configs]
        rig.learn(CONSUMER_OFFSETS)
        await wanting
        await rig.creation.ensure(CONSUMER_OFFSETS)
        assert len(rig.asked) == 1

    run(scene)


def test_nothing_is_left_under_way_when_the_broker_stops_before_the_controller_answers() -> None:
    async def scene(rig: Rig) -> None:
        rig.controller.is_silent = True
        waiting = asyncio.ensure_future(rig.creation.create(["orders", "other"]))
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) > 2
        await rig.creation.close()
        assert await waiting == dict.fromkeys(["orders", "other"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(scene)


def test_names_beyond_the_bound_are_unknown_when_too_many_are_under_way() -> None:
    async def scene(rig: Rig) -> None:
        rig.controller.is_silent = True
        most = topic_creation._MOST_UNDER_WAY
        first = asyncio.ensure_future(rig.creation.create([f"topic-{number}" for number in range(most)]))
        await asyncio.sleep(0)
        assert await rig.creation.create(["late"]) == {"late": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

    run(scene)
