from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable
from typing import Any, cast

import pytest

from penstock.broker.apis import APIS
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Api, Dispatcher, Handler
from penstock.broker.served_versions import api_versions_response
from penstock.broker.session import RequestContext, Session, UnanswerableError
from penstock.broker.slices import Slices
from penstock.core.logs import CLIENT_BURST
from penstock.core.metrics.counters import RequestMetrics
from penstock.protocol.api_names import API_NAMES
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest

SESSION = Session("1", "10.0.0.1", "PLAINTEXT")
BROKER = cast("Broker", object())


class Rig:
    """A dispatcher with one API beside ApiVersions."""

    def __init__(self, request: type[Message], handler: Handler[Any]) -> None:
        self.seconds = 0.0
        self.metrics = RequestMetrics(lambda code: ErrorCode(code).name)
        apis: dict[int, Api[Any]] = {
            request.API_KEY: Api(request, handler, request.MIN_VERSION, request.MAX_VERSION, request.MIN_VERSION),
            ApiVersionsRequest.API_KEY: Api(ApiVersionsRequest, lambda *_: api_versions_response([]), 0, 4, 0),
        }
        self.dispatcher = Dispatcher(BROKER, apis, self.metrics, Slices(lambda: self.seconds))

    def send(self, request: Message, version: int, *, correlation_id: int = 5, client_id: str | None = "me") -> Any:
        head = encode_request_header(
            request.API_KEY, version, correlation_id, client_id, version >= request.FLEXIBLE_FROM
        )
        return self.dispatcher.handle(SESSION, head + encode(request, version))

    def ask(self, request: Message, version: int) -> Any:
        return read(self.send(request, version), request.RESPONSE, version)

    def counts(self, attribute: str) -> dict[tuple[str, ...], object]:
        return dict(self.metrics.samples(attribute))


def read(reply: Any, response: type[Message], version: int) -> Any:
    data = b"".join(reply)
    (size,) = struct.unpack_from(">i", data)
    assert size == len(data) - 4
    flexible = version >= response.FLEXIBLE_FROM and response is not ApiVersionsResponse
    correlation_id, position = decode_response_header(data[4:], flexible)
    assert correlation_id == 5
    return decode(response, data[4:], version, position)


def frame(api_key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes:
    return encode_request_header(api_key, version, 5, "me", flexible) + body


def fail(error: Exception) -> Handler[Any]:
    def handler(*_: Any) -> Message:
        raise error

    return handler


def fail_later(error: Exception) -> Handler[Any]:
    async def work() -> Message:
        raise error

    return lambda *_: work()


def outcome(waiting: Awaitable[Any]) -> Any:
    async def run() -> Any:
        return await waiting

    return asyncio.run(run())


class TestServing:
    @pytest.mark.parametrize("version", range(5))
    def test_handler_gets_request_and_context_when_a_frame_arrives(self, version: int) -> None:
        seen: list[tuple[object, RequestContext, Any]] = []

        def handler(broker: object, context: RequestContext, request: Any) -> Message:
            seen.append((broker, context, request))
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

        answer = Rig(HeartbeatRequest, handler).ask(HeartbeatRequest(group_id="g", member_id="m"), version)
        ((broker, context, request),) = seen
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert broker is BROKER
        assert context == RequestContext(SESSION, 12, version, "me")
        assert (request.group_id, request.member_id) == ("g", "m")

    def test_client_id_is_none_when_the_client_gives_none(self) -> None:
        names: list[str | None] = []

        def handler(broker: object, context: RequestContext, request: Any) -> Message:
            names.append(context.client_id)
            return HeartbeatResponse()

        Rig(HeartbeatRequest, handler).send(HeartbeatRequest(group_id="g", member_id="m"), 0, client_id=None)
        assert names == [None]

    def test_answer_comes_later_when_the_handler_waits(self) -> None:
        async def work() -> Message:
            await asyncio.sleep(0)
            return HeartbeatResponse(error_code=27)

        waiting = Rig(HeartbeatRequest, lambda *_: work()).send(HeartbeatRequest(group_id="g", member_id="m"), 4)
        assert read(outcome(waiting), HeartbeatResponse, 4).error_code == 27

    def test_nothing_is_answered_when_the_handler_has_no_answer(self) -> None:
        rig = Rig(HeartbeatRequest, lambda *_: None)
        assert rig.send(HeartbeatRequest(group_id="g", member_id="m"), 0) is None

    def test_size_counts_every_chunk_when_records_stay_outside_the_message(self) -> None:
        records = memoryview(b"r" * 1000)
        answer = FetchResponse(
            responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])]
        )
        reply = Rig(FetchRequest, lambda *_: answer).send(FetchRequest(), 4)
        assert any(chunk is records for chunk in reply)
        assert bytes(read(reply, FetchResponse, 4).responses[0].partitions[0].records) == bytes(records)

    def test_requests_errors_and_sizes_are_counted_when_served(self) -> None:
        rig = Rig(HeartbeatRequest, lambda *_: HeartbeatResponse(error_code=27))
        for version in (0, 4, 4):
            rig.send(HeartbeatRequest(group_id="g", member_id="m"), version)
        assert rig.counts("requests") == {("Heartbeat", "0"): 1, ("Heartbeat", "4"): 2}
        assert rig.counts("errors") == {("Heartbeat", "REBALANCE_IN_PROGRESS"): 3}


class TestRefusing:
    @pytest.fixture
    def rig(self) -> Rig:
        return Rig(HeartbeatRequest, lambda *_: HeartbeatResponse())

    def refusal(self, rig: Rig, data: bytes) -> UnanswerableError:
        with pytest.raises(UnanswerableError) as caught:
            rig.dispatcher.handle(SESSION, data)
        return caught.value

    @pytest.mark.parametrize("api_key", [1, 999, -1, 32767, -32768])
    def test_connection_ends_when_the_api_is_unknown(self, rig: Rig, api_key: int) -> None:
        error = self.refusal(rig, frame(api_key, 0))
        assert error.kind == "api key"
        assert str(api_key) in str(error)

    @pytest.mark.parametrize("version", [5, -1, 32767, -32768])
    def test_connection_ends_when_the_version_is_not_served(self, rig: Rig, version: int) -> None:
        error = self.refusal(rig, frame(12, version))
        assert error.kind == "api version"
        served = "is not served (0 to 4 are), asked by client id 'me'"
        assert str(error) == f"Heartbeat (12) version {version} {served}"

    def test_refusal_names_the_api_and_the_client_when_kafka_has_it_and_we_do_not(self, rig: Rig) -> None:
        assert str(self.refusal(rig, frame(43, 2))) == "ElectLeaders (43) is not served, asked by client id 'me'"
        assert str(self.refusal(rig, frame(999, 0))) == "API 999 is not served, asked by client id 'me'"

    @pytest.mark.parametrize(
        ("client_id", "shown"),
        [
            (struct.pack(">h", -1), "a client without an id"),
            (struct.pack(">h", 0), "client id ''"),
            (struct.pack(">h", 1000) + b"x" * 1000, f"client id '{'x' * 50}'"),
            (struct.pack(">h", 7) + b"a\nERROR", r"client id 'a\nERROR'"),
            (struct.pack(">h", 2) + b"\xff\xfe", "a client whose id cannot be read"),
            (struct.pack(">h", 1000) + b"x", "a client whose id cannot be read"),
            (b"", "a client whose id cannot be read"),
        ],
    )
    def test_refusal_is_one_short_line_when_the_client_id_is_odd(self, rig: Rig, client_id: bytes, shown: str) -> None:
        error = self.refusal(rig, struct.pack(">hhi", 43, 2, 5) + client_id)
        assert error.kind == "api key"
        assert str(error) == f"ElectLeaders (43) is not served, asked by {shown}"

    @pytest.mark.parametrize("version", [5, 99, -1])
    @pytest.mark.parametrize("body", [b"", b"\xff" * 20])
    def test_version_0_names_the_range_when_the_version_of_api_versions_is_unknown(
        self, rig: Rig, version: int, body: bytes
    ) -> None:
        answer = read(rig.dispatcher.handle(SESSION, frame(18, version, body)), ApiVersionsResponse, 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]

    @pytest.mark.parametrize("size", range(8))
    def test_connection_ends_when_the_header_is_cut_short(self, rig: Rig, size: int) -> None:
        assert self.refusal(rig, bytes(size)).kind == "request"

    def test_connection_ends_when_the_body_is_cut_short_anywhere(self, rig: Rig) -> None:
        for version in range(5):
            whole = encode_request_header(12, version, 5, "me", version >= 4) + encode(
                HeartbeatRequest(group_id="group", member_id="member", generation_id=3), version
            )
            for size in range(8, len(whole)):
                assert self.refusal(rig, whole[:size]).kind == "request", (version, size)

    @pytest.mark.parametrize("rest", [b"\0", b"\0" * 1000])
    def test_request_is_served_when_bytes_follow_the_body(self, rig: Rig, rest: bytes) -> None:
        """librdkafka sends some after a metadata request for all topics."""
        body = encode(HeartbeatRequest(group_id="g", member_id="m"), 4)
        reply = rig.dispatcher.handle(SESSION, frame(12, 4, body + rest, flexible=True))
        assert read(reply, HeartbeatResponse, 4).error_code == 0

    def test_connection_ends_when_the_client_id_is_not_text(self, rig: Rig) -> None:
        data = struct.pack(">hhih", 12, 0, 5, 2) + b"\xff\xfe" + bytes(20)
        assert "header" in str(self.refusal(rig, data))

    def test_handler_may_end_the_connection_when_it_cannot_answer(self) -> None:
        refusing = Rig(HeartbeatRequest, fail(UnanswerableError("produce without acks", "sorry")))
        with pytest.raises(UnanswerableError, match="sorry"):
            refusing.send(HeartbeatRequest(group_id="g", member_id="m"), 0)
        later = Rig(HeartbeatRequest, fail_later(UnanswerableError("produce without acks", "sorry")))
        with pytest.raises(UnanswerableError, match="sorry"):
            outcome(later.send(HeartbeatRequest(group_id="g", member_id="m"), 0))


class TestFailures:
    """The handler raised: one error for the whole request, where the response has a place for it."""

    @pytest.mark.parametrize("version", range(5))
    @pytest.mark.parametrize("failing", [fail, fail_later])
    def test_error_is_answered_when_a_handler_says_so(self, failing: Any, version: int) -> None:
        rig = Rig(HeartbeatRequest, failing(ApiError(ErrorCode.INVALID_GROUP_ID, "no")))
        reply = rig.send(HeartbeatRequest(group_id="g", member_id="m"), version)
        reply = reply if isinstance(reply, list) else outcome(reply)
        assert read(reply, HeartbeatResponse, version).error_code == ErrorCode.INVALID_GROUP_ID
        assert rig.counts("errors") == {("Heartbeat", "INVALID_GROUP_ID"): 1}

    def test_text_is_answered_when_the_response_has_room_for_it(self) -> None:
        rig = Rig(DescribeClusterRequest, fail(ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")))
        answer = rig.ask(DescribeClusterRequest(), 2)
        assert (answer.error_code, answer.error_message) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")

    @pytest.mark.parametrize("failing", [fail, fail_later])
    def test_unknown_error_is_answered_and_logged_when_a_handler_has_a_bug(
        self, failing: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        rig = Rig(HeartbeatRequest, failing(ZeroDivisionError("secret")))
        reply = rig.send(HeartbeatRequest(group_id="g", member_id="m"), 0)
        reply = reply if isinstance(reply, list) else outcome(reply)
        assert read(reply, HeartbeatResponse, 0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert b"secret" not in b"".join(reply)
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert record.exc_info is not None

    def test_tracebacks_are_held_back_when_a_client_finds_a_bug_again_and_again(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        rig = Rig(HeartbeatRequest, fail(ZeroDivisionError()))
        for _ in range(100):
            rig.send(HeartbeatRequest(group_id="g", member_id="m"), 0)
        assert len(caplog.records) == CLIENT_BURST
        rig.seconds += 10
        rig.send(HeartbeatRequest(group_id="g", member_id="m"), 0)
        assert vars(caplog.records[-1])["held_back"] == 100 - CLIENT_BURST

    @pytest.mark.parametrize(
        ("request_class", "version", "is_answered"),
        [
            (MetadataRequest, 0, False),
            (MetadataRequest, 12, False),
            (MetadataRequest, 13, True),
            (FetchRequest, 6, False),
            (FetchRequest, 7, True),
            (OffsetFetchRequest, 1, False),
            (OffsetFetchRequest, 2, True),
            (OffsetFetchRequest, 7, True),
            (OffsetFetchRequest, 8, False),
            (CreateTopicsRequest, 7, False),
        ],
    )
    def test_connection_ends_when_the_version_has_no_place_for_an_error(
        self, request_class: type[Message], version: int, is_answered: bool
    ) -> None:
        """An answer without the error would read as success: no topics, no records, no offsets."""
        rig = Rig(request_class, fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR)))
        if is_answered:
            assert rig.ask(request_class(), version).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        else:
            with pytest.raises(UnanswerableError) as caught:
                rig.send(request_class(), version)
            assert caught.value.kind == "failure"

    @pytest.mark.parametrize(
        "answer",
        [
            ListGroupsResponse(throttle_time_ms=2**40),
            ListGroupsResponse(groups=[ListedGroup(group_id="g" * 40_000)]),
            ListGroupsResponse(groups=[ListedGroup(group_id=None)]),  # type: ignore[arg-type]
        ],
    )
    def test_error_is_answered_when_the_answer_cannot_be_encoded(
        self, answer: Message, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert Rig(ListGroupsRequest, lambda *_: answer).ask(ListGroupsRequest(), 1).error_code == -1

        async def later() -> Message:
            return answer

        reply = outcome(Rig(ListGroupsRequest, lambda *_: later()).send(ListGroupsRequest(), 1))
        assert read(reply, ListGroupsResponse, 1).error_code == -1
        assert len(caplog.records) == 2

    def test_connection_ends_when_neither_answer_nor_error_can_be_encoded(self) -> None:
        rig = Rig(MetadataRequest, lambda *_: MetadataResponse(controller_id=2**40))
        with pytest.raises(UnanswerableError):
            rig.send(MetadataRequest(), 5)


class TestTable:
    @pytest.mark.parametrize("api_key", sorted(APIS))
    def test_names_agree_when_an_api_is_served(self, api_key: int) -> None:
        assert APIS[api_key].name == API_NAMES[api_key]

    @pytest.mark.parametrize("api_key", sorted(APIS))
    def test_served_versions_exist_in_the_protocol_when_an_api_is_in_the_table(self, api_key: int) -> None:
        api = APIS[api_key]
        assert api.request.API_KEY == api.request.RESPONSE.API_KEY == api_key
        assert api.request.MIN_VERSION <= api.min_version <= api.max_version <= api.request.MAX_VERSION
        assert api.advertised_min <= api.min_version
        assert api.request.FLEXIBLE_FROM == api.request.RESPONSE.FLEXIBLE_FROM or api_key == 18

    def test_every_api_is_advertised_in_order_when_asked(self) -> None:
        assert [
            row.api_key for row in api_versions_response([api.served_versions for api in APIS.values()]).api_keys
        ] == sorted(APIS)
