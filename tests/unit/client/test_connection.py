"""Both connections against a small scripted server on loopback."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import threading

import pytest

from penstock.client.connection import BlockingConnection, Connection, ConnectionClosedError
from penstock.client.connection.core import ConnectionCore
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import (
    decode_client_id,
    decode_request_header,
    encode_response_header,
)
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.security.sasl.plain import PlainCredentials
from tests.unit.client.scripted_broker import frame, list_groups_answer, serving


class TestBlocking:
    def test_name_is_unknown_when_no_host_can_have_it(self) -> None:
        with pytest.raises(socket.gaierror, match="not known"):
            BlockingConnection("kafka..example", 9092)

    @pytest.mark.parametrize("version", range(ListGroupsRequest.MAX_VERSION + 1))
    def test_response_is_decoded_when_the_version_is_plain_or_flexible(self, version: int) -> None:
        with serving(list_groups_answer) as port, BlockingConnection("127.0.0.1", port) as connection:
            assert connection.request(ListGroupsRequest(), version).groups[0].group_id == "g"

    def test_answers_reach_their_requests_when_pipelined(self) -> None:
        requests: list[bytes] = []

        def answer_every_second_in_reverse(request: bytes) -> bytes:
            requests.append(request)
            if len(requests) % 2:
                return b""
            first, second = requests[-2:]
            return list_groups_answer(second, "second") + list_groups_answer(first, "first")

        with serving(answer_every_second_in_reverse) as port, BlockingConnection("127.0.0.1", port) as connection:
            first, second = (connection.send(ListGroupsRequest(), 0) for _ in range(2))
            assert connection.receive(first).groups[0].group_id == "first"
            assert connection.receive(second).groups[0].group_id == "second"

    def test_client_id_is_sent_when_given(self) -> None:
        seen: list[str | None] = []

        def remember(request: bytes) -> bytes:
            seen.append(decode_client_id(request, flexible=False)[0])
            return list_groups_answer(request)

        for client_id in ("me", None, ""):
            with serving(remember) as port, BlockingConnection("127.0.0.1", port, client_id=client_id) as connection:
                connection.request(ListGroupsRequest(), 0)
        assert seen == ["me", None, ""]

    def test_versions_answer_is_read_as_version_0_when_the_broker_refuses_the_version(self) -> None:
        def refuse(request: bytes) -> bytes:
            body = encode(ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=3)]), 0)
            return frame(encode_response_header(decode_request_header(request).correlation_id, False) + body)

        with serving(refuse) as port, BlockingConnection("127.0.0.1", port) as connection:
            answer = connection.request(ApiVersionsRequest(), 4)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert answer.api_keys[0].max_version == 3

    def test_versions_answer_has_a_plain_header_when_the_version_is_flexible(self) -> None:
        def answer(request: bytes) -> bytes:
            body = encode(ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)]), 4)
            return frame(encode_response_header(decode_request_header(request).correlation_id, False) + body)

        with serving(answer) as port, BlockingConnection("127.0.0.1", port) as connection:
            assert connection.request(ApiVersionsRequest(), 4).api_keys[0].max_version == 4

    def test_nothing_is_read_when_a_request_has_no_answer(self) -> None:
        seen: list[int] = []

        def answer_the_second(request: bytes) -> bytes:
            seen.append(decode_request_header(request).correlation_id)
            return list_groups_answer(request) if len(seen) == 2 else b""

        with serving(answer_the_second) as port, BlockingConnection("127.0.0.1", port) as connection:
            connection.send(ListGroupsRequest(), 0, is_answered=False)
            assert connection.request(ListGroupsRequest(), 0).groups[0].group_id == "g"
        assert seen == [0, 1]

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (b"", "closed the connection"),
            (b"\x7f\xff\xff\xff", "at most"),
            (b"\xff\xff\xff\xff", "at most"),
            (struct.pack(">i", 3), "at most"),
            (frame(struct.pack(">i", 77) + b"\0\0"), "nobody sent"),
            (frame(struct.pack(">i", 0) + b"\0"), "cannot be decoded"),
            (struct.pack(">i", 0)[:2], "closed the connection"),
        ],
        ids=["closed", "huge", "negative", "tiny", "unknown id", "malformed", "half a length"],
    )
    def test_connection_is_closed_when_the_answer_is_broken(self, answer: bytes, message: str) -> None:
        with serving(lambda _: answer, answers=1) as port, BlockingConnection("127.0.0.1", port) as connection:
            with pytest.raises(ConnectionClosedError, match=message):
                connection.request(ListGroupsRequest(), 0)
            assert not connection.is_open
            with pytest.raises(ConnectionClosedError):
                connection.request(ListGroupsRequest(), 0)

    def test_connection_is_closed_when_the_answer_does_not_come_in_time(self) -> None:
        with serving(lambda _: b"") as port, BlockingConnection("127.0.0.1", port) as connection:
            with pytest.raises(TimeoutError):
                connection.request(ListGroupsRequest(), 0, timeout_s=0.01)
            assert not connection.is_open

    def test_large_request_is_sent_when_the_answer_before_came_in_the_last_moment(self) -> None:
        """What the last read had left of its time was the time to send the next request."""
        asked = threading.Event()

        def serve() -> None:
            client, _ = listener.accept()
            with client, client.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                client.sendall(list_groups_answer(stream.read(size)))
                asked.wait(10)
                assert len(stream.read(size_sent)) == size_sent

        size_sent = 32 * 1024 * 1024  # more than the buffers of both sides hold
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = threading.Thread(target=serve, daemon=True)
            server.start()
            with BlockingConnection("127.0.0.1", listener.getsockname()[1]) as connection:
                connection.request(ListGroupsRequest(), 0, timeout_s=0.5)
                threading.Timer(1.0, asked.set).start()
                connection.send_bytes(bytes(size_sent))
            server.join(10)
            assert not server.is_alive()


async def open_to(port: int) -> Connection:
    return await Connection.open("127.0.0.1", port)


class TestAsync:
    def test_name_is_unknown_when_no_host_can_have_it(self) -> None:
        with pytest.raises(socket.gaierror, match="not known"):
            asyncio.run(Connection.open("kafka..example", 9092))

    def test_answers_reach_their_requests_when_pipelined(self) -> None:
        requests: list[bytes] = []

        def answer_every_third_in_reverse(request: bytes) -> bytes:
            requests.append(request)
            if len(requests) % 3:
                return b""
            return b"".join(
                list_groups_answer(one, str(decode_request_header(one).correlation_id))
                for one in reversed(requests[-3:])
            )

        async def run(port: int) -> list[str]:
            async with await open_to(port) as connection:
                answers = await asyncio.gather(*(connection.request(ListGroupsRequest(), 4) for _ in range(3)))
            return [answer.groups[0].group_id for answer in answers]

        with serving(answer_every_third_in_reverse) as port:
            assert asyncio.run(run(port)) == ["0", "1", "2"]

    def test_every_outstanding_request_fails_when_the_broker_closes(self) -> None:
        answers = iter([b"", b"", None])

        async def run(port: int) -> None:
            async with await open_to(port) as connection:
                outcomes = await asyncio.gather(
                    *(connection.request(ListGroupsRequest(), 0) for _ in range(3)), return_exceptions=True
                )
                assert [type(outcome) for outcome in outcomes] == [ConnectionClosedError] * 3
                assert not connection.is_open
                with pytest.raises(ConnectionClosedError):
                    await connection.request(ListGroupsRequest(), 0)
                with pytest.raises(ConnectionClosedError):
                    await connection.send(ListGroupsRequest(), 0)

        with serving(lambda _: next(answers)) as port:
            asyncio.run(run(port))

    def test_other_requests_fail_as_well_when_one_times_out(self) -> None:
        async def run(port: int) -> None:
            async with await open_to(port) as connection:
                patient = asyncio.create_task(connection.request(ListGroupsRequest(), 0))
                with pytest.raises(TimeoutError, match="ListGroupsRequest"):
                    await connection.request(ListGroupsRequest(), 0, timeout_s=0.01)
                with pytest.raises(ConnectionClosedError):
                    await patient

        with serving(lambda _: b"") as port:
            asyncio.run(run(port))

    def test_request_keeps_its_time_limit_when_another_one_waits_for_a_login(self) -> None:
        """It waited for as long as the request that had begun the login."""

        async def run(port: int) -> None:
            loop = asyncio.get_running_loop()
            core = ConnectionCore(credentials=PlainCredentials("alice", "secret"), host="127.0.0.1")
            core.note_login(1.0, loop.time() - 1.0)  # the next one is due
            async with Connection(*await asyncio.open_connection("127.0.0.1", port), core) as connection:
                patient = asyncio.create_task(connection.request(ListGroupsRequest(), 0, timeout_s=30))
                await asyncio.sleep(0)
                began = loop.time()
                with pytest.raises(TimeoutError, match=r"no login within 0\.1 s"):
                    await connection.request(ListGroupsRequest(), 0, timeout_s=0.1)
                assert loop.time() - began < 10
                assert connection.is_open
                connection.end("the test is over")
                with pytest.raises(ConnectionClosedError):
                    await patient

        with serving(lambda _: b"") as port:
            asyncio.run(run(port))

    def test_later_requests_work_when_one_was_cancelled(self) -> None:
        requests: list[bytes] = []

        def answer_both_at_the_second(request: bytes) -> bytes:
            requests.append(request)
            return b"" if len(requests) == 1 else b"".join(map(list_groups_answer, requests))

        async def run(port: int) -> str:
            async with await open_to(port) as connection:
                first = asyncio.create_task(connection.request(ListGroupsRequest(), 0))
                await asyncio.sleep(0)
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                answer = await connection.request(ListGroupsRequest(), 0)
                return str(answer.groups[0].group_id)

        with serving(answer_both_at_the_second) as port:
            assert asyncio.run(run(port)) == "g"

    @pytest.mark.parametrize("answer", [b"\x7f\xff\xff\xff", frame(struct.pack(">i", 77) + b"\0\0")])
    def test_connection_is_closed_when_the_answer_is_broken(self, answer: bytes) -> None:
        async def run(port: int) -> None:
            async with await open_to(port) as connection:
                with pytest.raises(ConnectionClosedError):
                    await connection.request(ListGroupsRequest(), 0)
                assert not connection.is_open

        with serving(lambda _: answer) as port:
            asyncio.run(run(port))

    def test_nothing_is_awaited_when_a_request_has_no_answer(self) -> None:
        seen: list[bytes] = []

        def answer_the_second(request: bytes) -> bytes:
            seen.append(request)
            return list_groups_answer(request) if len(seen) == 2 else b""

        async def run(port: int) -> None:
            async with await open_to(port) as connection:
                await connection.send(ListGroupsRequest(), 0)
                await connection.request(ListGroupsRequest(), 0)

        with serving(answer_the_second) as port:
            asyncio.run(run(port))
        assert len(seen) == 2

    def test_outstanding_request_fails_when_closed_by_its_owner(self) -> None:
        async def run(port: int) -> None:
            connection = await open_to(port)
            pending = asyncio.create_task(connection.request(ListGroupsRequest(), 0))
            await asyncio.sleep(0)
            await connection.close()
            await connection.close()
            with pytest.raises(ConnectionClosedError):
                await pending

        with serving(lambda _: b"") as port:
            asyncio.run(run(port))

    def test_listener_hears_of_it_when_the_broker_ends_the_connection(self) -> None:
        async def run(port: int) -> None:
            connection = await open_to(port)
            lost = asyncio.Event()
            connection.on_lost(lost.set)
            with pytest.raises(ConnectionClosedError):
                await connection.request(ListGroupsRequest(), 0)
            await asyncio.wait_for(lost.wait(), 20)
            await connection.close()

        with serving(lambda _: None) as port:
            asyncio.run(run(port))

    def test_listener_hears_nothing_when_its_owner_closes_or_a_request_times_out(self) -> None:
        async def run(port: int) -> None:
            connection = await open_to(port)
            lost = asyncio.Event()
            connection.on_lost(lost.set)
            with pytest.raises(TimeoutError):
                await connection.request(ListGroupsRequest(), 0, timeout_s=0.01)
            await connection.close()
            assert not lost.is_set()

        with serving(lambda _: b"") as port:
            asyncio.run(run(port))

    @pytest.mark.parametrize(
        ("code", "is_silent"), [(errno.ETIMEDOUT, True), (errno.EHOSTUNREACH, True), (errno.ECONNRESET, False)]
    )
    def test_listener_can_tell_silence_when_the_kernel_ends_the_connection(self, code: int, is_silent: bool) -> None:
        async def run(port: int) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            reader = asyncio.StreamReader()
            connection = Connection(reader, writer, ConnectionCore("me", 1_000))
            lost = asyncio.Event()
            connection.on_lost(lost.set)
            reader.set_exception(OSError(code, os.strerror(code)))
            await asyncio.wait_for(lost.wait(), 20)
            assert connection.fell_silent is is_silent
            await connection.close()

        with serving(lambda _: b"") as port:
            asyncio.run(run(port))

    def test_connection_closes_when_an_answer_comes_after_its_end(self) -> None:
        async def run(port: int) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            reader = asyncio.StreamReader()
            connection = Connection(reader, writer, ConnectionCore("me"))
            pending = await connection.begin(ListGroupsRequest(), 0)
            request = ConnectionCore("me").encode_request(ListGroupsRequest(), 0)[1]
            reader.feed_data(list_groups_answer(request[4:]))
            connection.end("the broker did not answer")
            with pytest.raises(ConnectionClosedError, match="did not answer"):
                await pending
            await connection.close()

        with serving(lambda _: b"") as port:
            asyncio.run(run(port))

    def test_opening_fails_when_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        with pytest.raises(OSError, match=str(port)):
            asyncio.run(open_to(port))
