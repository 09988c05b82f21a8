"""A broker that is not the controller passes requests on, and the controller answers them in the client's name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.apis import APIS
from penstock.broker.authorizer import AllowEverything, Operation, ResourceType
from penstock.broker.forwarding.envelopes import encode_address, encode_principal
from penstock.broker.forwarding.refusals import refuse
from penstock.broker.session import ANONYMOUS, Principal, RequestContext, Session, UnanswerableError
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import encode_response_header
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_configs as full_messages
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.unit.broker.peers.pair import Pair, pair
from tests.unit.broker.served import encode_frame
from tests.waiting import until

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
LOST = ConnectionResetError("the answer is lost")


def with_pair(directory: Path, scene: Callable[[Pair], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), pair(directory) as both:
            await scene(both)

    asyncio.run(run())


def creation(*names: str, timeout_ms: int = 10_000) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def deletion(*names: str) -> DeleteTopicsRequest:
    topics = [DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=topics, topic_names=list(names), timeout_ms=10_000)


def setting(resource_type: int, name: str, key: str, value: str) -> AlterConfigsResource:
    configs = [AlterableConfig(name=key, config_operation=0, value=value)]
    return AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)


class TestFromTheClient:
    @pytest.mark.parametrize("version", [2, 7])
    def test_topic_is_created_when_a_broker_that_is_not_the_controller_is_asked(
        self, tmp_path: Path, version: int
    ) -> None:
        async def scene(both: Pair) -> None:
            answer = await both.other.ask(creation("orders", "a b"), version)
            assert {topic.name: topic.error_code for topic in answer.topics} == {
                "orders": ErrorCode.NONE,
                "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
            assert "orders" in both.controller.broker.metadata.image.topics

        with_pair(tmp_path, scene)

    def test_request_waits_for_the_controller_when_there_is_none(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            both.view.publish(controller_id=-1)
            asked = asyncio.ensure_future(both.other.ask(creation("orders"), 7))
            await asyncio.sleep(0)
            both.view.publish(controller_id=1)
            assert [topic.error_code for topic in (await asked).topics] == [ErrorCode.NONE]

        with_pair(tmp_path, scene)

    def test_request_is_tried_again_when_the_controller_was_away(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            both.is_away = True
            asked = asyncio.ensure_future(both.other.ask(creation("orders"), 7))
            await until(lambda: both.refused_connections)
            both.is_away = False
            assert [topic.error_code for topic in (await asked).topics] == [ErrorCode.NONE]

        with_pair(tmp_path, scene)

    def test_each_topic_has_timed_out_when_the_controller_stays_away(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            both.is_away = True
            answer = await both.other.ask(creation("a", "b", timeout_ms=0), 7)
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.REQUEST_TIMED_OUT] * 2

        with_pair(tmp_path, scene)

    def test_controller_sees_the_client_when_it_decides(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            seen: list[tuple[Principal, str, str | None]] = []

            class Watching(AllowEverything):
                def is_allowed(
                    self, context: RequestContext, operation: Operation, kind: ResourceType, name: str
                ) -> bool:
                    if operation is Operation.CREATE:
                        seen.append((context.principal, context.client_host, context.client_id))
                    return operation is Operation.CLUSTER_ACTION

                would_allow = is_allowed

            both.controller.broker.authorizer = Watching()
            both.other.session = Session("7", "10.5.5.5", "PLAINTEXT", Principal("User", "alice"))
            answer = await both.other.ask(creation("orders"), 7)
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            assert set(seen) == {(Principal("User", "alice"), "10.5.5.5", "me")}

        with_pair(tmp_path, scene)

    def test_client_is_told_of_a_fault_when_the_controller_refuses_the_envelope(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            class Refusing(AllowEverything):
                def is_allowed(self, *_: object) -> bool:
                    return False

            both.controller.broker.authorizer = Refusing()
            answer = await both.other.ask(creation("orders"), 7)
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR]

        with_pair(tmp_path, scene)

    def test_request_is_served_here_when_this_broker_becomes_the_controller(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            both.view.publish(controller_id=-1)
            asked = asyncio.ensure_future(both.other.ask(creation("orders"), 7))
            await asyncio.sleep(0)
            both.view.is_controller = True
            both.view.publish(controller_id=2)
            # The metadata of this test's second broker never became the controller's; so the handler ran here.
            assert [topic.error_code for topic in (await asked).topics] == [ErrorCode.NOT_CONTROLLER]

        with_pair(tmp_path, scene)


class TestLostAnswers:
    """The controller has done what it was asked, and the connection ends before it says so: the request is sent again,
    and finds its own work.
    """

    @pytest.mark.parametrize("version", [2, 5, 7])
    def test_topic_is_created_when_the_answer_is_lost(self, tmp_path: Path, version: int) -> None:
        async def scene(both: Pair) -> None:
            both.disturbances = [LOST]
            answer = await both.other.ask(creation("orders"), version)
            undisturbed = await both.other.ask(creation("payments"), version)
            (made,), (usual,) = answer.topics, undisturbed.topics
            assert (made.error_code, made.error_message) == (ErrorCode.NONE, usual.error_message)
            topic = both.controller.broker.metadata.image.topics["orders"]
            assert made.topic_id == (topic.topic_id if version == 7 else usual.topic_id)
            assert (made.num_partitions, made.replication_factor) == (usual.num_partitions, usual.replication_factor)
            assert made.configs == usual.configs
            again = await both.other.ask(creation("orders"), version)
            assert [each.error_code for each in again.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]

        with_pair(tmp_path, scene)

    def test_topic_is_created_when_the_controller_was_not_sure(self, tmp_path: Path) -> None:
        """It lost its store while it wrote, and cannot tell whether the topic was made."""

        async def scene(both: Pair) -> None:
            unsure = CreateTopicsResponse(
                topics=[CreatableTopicResult(name="orders", error_code=ErrorCode.NOT_CONTROLLER)]
            )
            data = encode_response_header(0, flexible=True) + encode(unsure, 7)
            both.disturbances = [EnvelopeResponse(response_data=data)]
            answer = await both.other.ask(creation("orders"), 7)
            assert [each.error_code for each in answer.topics] == [ErrorCode.NONE]

        with_pair(tmp_path, scene)

    def test_topic_exists_when_it_was_there_before_the_request(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            await both.other.ask(creation("orders"), 7)
            await both.know("orders")
            both.disturbances = [LOST]
            answer = await both.other.ask(creation("orders", "new"), 7)
            assert {each.name: each.error_code for each in answer.topics} == {
                "orders": ErrorCode.TOPIC_ALREADY_EXISTS,
                "new": ErrorCode.NONE,
            }

        with_pair(tmp_path, scene)

    @pytest.mark.parametrize("version", [1, 5, 6])
    def test_topic_is_deleted_when_the_answer_is_lost(self, tmp_path: Path, version: int) -> None:
        async def scene(both: Pair) -> None:
            await both.other.ask(creation("orders"), 7)
            both.disturbances = [LOST]
            answer = await both.other.ask(deletion("orders"), version)
            assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]
            again = await both.other.ask(deletion("orders"), version)
            assert [each.error_code for each in again.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

        with_pair(tmp_path, scene)

    def test_topic_is_deleted_by_its_id_when_the_answer_is_lost(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            (made,) = (await both.other.ask(creation("orders"), 7)).topics
            both.disturbances = [LOST]
            request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=made.topic_id)])
            answer = await both.other.ask(request, 6)
            assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]

        with_pair(tmp_path, scene)

    def test_topic_has_its_partitions_when_the_answer_is_lost(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            await both.other.ask(creation("orders", "as-it-is"), 7)
            await both.know("orders", "as-it-is")
            both.disturbances = [LOST]
            request = CreatePartitionsRequest(
                topics=[
                    CreatePartitionsTopic(name="orders", count=3, assignments=None),
                    CreatePartitionsTopic(name="as-it-is", count=1, assignments=None),
                ]
            )
            answer = await both.other.ask(request, 3)
            assert {each.name: each.error_code for each in answer.results} == {
                "orders": ErrorCode.NONE,
                "as-it-is": ErrorCode.INVALID_PARTITIONS,
            }

        with_pair(tmp_path, scene)

    def test_nothing_is_forgiven_when_the_request_never_left(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            both.is_away = True
            asked = asyncio.ensure_future(both.other.ask(creation("orders"), 7))
            await until(lambda: both.refused_connections > 0)
            await both.controller.create("orders")  # by somebody else
            both.is_away = False
            assert [each.error_code for each in (await asked).topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]

        with_pair(tmp_path, scene)


class TestConfigs:
    def test_log_levels_change_here_and_the_rest_at_the_controller(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            await both.controller.create("orders")
            request = IncrementalAlterConfigsRequest(
                resources=[
                    setting(TOPIC, "orders", "retention.ms", "5"),
                    setting(BROKER_LOGGER, "2", "penstock.test.forwarding", "DEBUG"),
                    setting(BROKER, "2", "log.retention.ms", "7"),
                    setting(BROKER, "1", "log.retention.ms", "9"),
                ],
                validate_only=False,
            )
            answer = await both.other.ask(request, 1)
            codes = {(each.resource_type, each.resource_name): each.error_code for each in answer.responses}
            assert codes[TOPIC, "orders"] == ErrorCode.NONE
            assert codes[BROKER, "2"] == ErrorCode.NONE
            # Clients send the settings of a broker to that broker.
            assert codes[BROKER, "1"] == ErrorCode.INVALID_REQUEST
            assert (BROKER_LOGGER, "2") in codes
            image = both.controller.broker.metadata.image
            assert image.topics["orders"].configs == {"retention.ms": "5"}
            assert image.broker_configs[2] == {"log.retention.ms": "7"}
            assert image.broker_configs.get(1, {}) == {}

        with_pair(tmp_path, scene)

    def test_settings_are_replaced_at_the_controller(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            await both.controller.create("orders", retention_ms="5")
            configs = [full_messages.AlterableConfig(name="segment.ms", value="7")]
            resource = full_messages.AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=configs)
            answer = await both.other.ask(full_messages.AlterConfigsRequest(resources=[resource]), 2)
            assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]
            assert both.controller.broker.metadata.image.topics["orders"].configs == {"segment.ms": "7"}

        with_pair(tmp_path, scene)


class TestEnvelope:
    def wrap(self, request: Message, version: int, **changes: Any) -> EnvelopeRequest:
        fields: dict[str, Any] = {
            "request_data": encode_frame(request, version),
            "request_principal": encode_principal(ANONYMOUS),
            "client_host_address": encode_address("10.0.0.1"),
            **changes,
        }
        return EnvelopeRequest(**fields)

    @pytest.mark.parametrize(
        ("request_", "version", "changes", "code"),
        [
            (ListGroupsRequest(), 4, {}, ErrorCode.INVALID_REQUEST),
            (creation("t"), 7, {"request_data": b"ab"}, ErrorCode.INVALID_REQUEST),
            (creation("t"), 7, {"request_data": b"\0\x13\0\7\0\0\0\1\0\0"}, ErrorCode.INVALID_REQUEST),
            (creation("t"), 7, {"request_data": b"\0\x13\0\x63\0\0\0\1\0\0"}, ErrorCode.UNSUPPORTED_VERSION),
            (creation("t"), 7, {"client_host_address": b"abc"}, ErrorCode.INVALID_REQUEST),
            (creation("t"), 7, {"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ],
    )
    def test_envelope_is_refused_when_what_it_holds_is_wrong(
        self, tmp_path: Path, request_: Message, version: int, changes: dict[str, Any], code: ErrorCode
    ) -> None:
        async def scene(both: Pair) -> None:
            answer = await both.controller.ask(self.wrap(request_, version, **changes), 0)
            assert (answer.error_code, answer.response_data) == (code, None)

        with_pair(tmp_path, scene)

    def test_other_broker_is_sent_to_look_again_when_this_one_is_not_the_controller(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            answer = await both.other.ask(self.wrap(creation("t"), 7), 0)
            assert answer.error_code == ErrorCode.NOT_CONTROLLER

        with_pair(tmp_path, scene)

    def test_connection_closes_when_an_envelope_comes_on_a_listener_for_clients(self, tmp_path: Path) -> None:
        async def scene(both: Pair) -> None:
            both.controller.session = Session("1", "10.0.0.1", "OUTSIDE")
            with pytest.raises(UnanswerableError):
                await both.controller.ask(self.wrap(creation("t"), 7), 0)

        with_pair(tmp_path, scene)

    @pytest.mark.parametrize("is_broker", [True, False])
    def test_right_decides_on_every_listener_when_there_is_an_authorizer(self, tmp_path: Path, is_broker: bool) -> None:
        """Brokers whose `inter.broker.listener.name` differs have to understand each other: a rolling restart is under
        way.
        """

        class Rules(AllowEverything):
            has_rules = True

            def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
                return is_broker or operation is not Operation.CLUSTER_ACTION

            would_allow = is_allowed

        async def scene(both: Pair) -> None:
            both.controller.broker.authorizer = Rules()
            both.controller.session = Session("1", "10.0.0.1", "OUTSIDE")
            answer = await both.controller.ask(self.wrap(creation("t"), 7), 0)
            assert answer.error_code == (ErrorCode.NONE if is_broker else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            told = await both.controller.ask(ApiVersionsRequest(), 0)
            assert (EnvelopeRequest.API_KEY in {api.api_key for api in told.api_keys}) is is_broker

        with_pair(tmp_path, scene)


FORWARDED: list[Message] = [
    creation("t"),
    DeleteTopicsRequest(topic_names=["t"], topics=[]),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3)]),
    full_messages.AlterConfigsRequest(
        resources=[full_messages.AlterConfigsResource(resource_type=TOPIC, resource_name="t")]
    ),
    IncrementalAlterConfigsRequest(resources=[setting(TOPIC, "t", "retention.ms", "5")]),
    ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])]),
    ListPartitionReassignmentsRequest(topics=None),
]


@pytest.mark.parametrize("request_", FORWARDED, ids=lambda request: type(request).__name__)
def test_refusal_names_the_error_in_every_version(request_: Message) -> None:
    api = APIS[request_.API_KEY]
    for version in range(api.min_version, api.max_version + 1):
        response = refuse(request_, ErrorCode.REQUEST_TIMED_OUT, "late")
        assert encode(response, version)
        assert "error_code=<ErrorCode.REQUEST_TIMED_OUT" in repr(response)


def test_every_forwarded_api_has_a_refusal() -> None:
    for api in APIS.values():
        if api.is_forwarded:
            assert type(refuse(api.request(), ErrorCode.REQUEST_TIMED_OUT, "late")) is api.request.RESPONSE


def test_produce_and_fetch_are_never_forwarded() -> None:
    assert not any(APIS[key].is_forwarded for key in (0, 1, 2, 3))


def test_request_can_be_cancelled_when_it_waits_for_the_controller(tmp_path: Path) -> None:
    async def scene(both: Pair) -> None:
        both.is_away = True
        asked = asyncio.ensure_future(both.other.ask(creation("a", timeout_ms=60_000), 7))
        await until(lambda: both.refused_connections)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    with_pair(tmp_path, scene)
