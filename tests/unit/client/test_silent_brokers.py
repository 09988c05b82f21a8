"""Which broker is asked for what any of them knows, where one does not answer; and when a connection is a new one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from penstock.client.brokers import Brokers, BrokersUnreachableError
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.protocol.codec import encode
from penstock.protocol.framing import decode_request_header, encode_response_header
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest
from tests.unit.client.scripted_broker import frame, list_groups_answer, serving

SERVED = ApiVersionsResponse(
    api_keys=[ApiVersion(api_key=ListGroupsRequest.API_KEY, max_version=ListGroupsRequest.MAX_VERSION)]
)


def broker(answers: int = 1_000) -> Callable[[bytes], bytes]:
    """Silent after so many answers."""
    left = iter(range(answers))

    def answer(request: bytes) -> bytes:
        header = decode_request_header(request)
        if header.api_key != ApiVersionsRequest.API_KEY:
            return b"" if next(left, None) is None else list_groups_answer(request)
        return frame(encode_response_header(header.correlation_id, False) + encode(SERVED, header.api_version))

    return answer


def test_next_question_goes_to_another_broker_when_one_did_not_answer() -> None:
    async def ask(silent: int, answering: int) -> None:
        addresses = [("127.0.0.1", silent), ("127.0.0.1", answering)]
        async with Brokers(addresses) as brokers:
            await brokers.ask(ListGroupsRequest())  # over a connection that is kept
            with pytest.raises(TimeoutError):
                await brokers.ask(ListGroupsRequest(), timeout_s=0.1)
            assert brokers.silent_addresses() == {addresses[0]}
            assert (await brokers.ask(ListGroupsRequest())).groups[0].group_id == "g"

    with serving(broker(answers=1)) as silent, serving(broker()) as answering:
        asyncio.run(ask(silent, answering))


def test_security_is_read_again_when_the_client_has_hung_up() -> None:
    read: list[ClientSecurity] = []

    def load() -> ClientSecurity:
        read.append(PLAINTEXT)
        return PLAINTEXT

    async def ask(port: int) -> None:
        async with Brokers([("127.0.0.1", port)], load) as brokers:
            await brokers.ask(ListGroupsRequest())
            await brokers.ask(ListGroupsRequest())
            assert len(read) == 1
            await brokers.hang_up()
            await brokers.ask(ListGroupsRequest())
            assert len(read) == 2

    with serving(broker(), connections=2) as port:
        asyncio.run(ask(port))


def test_servers_are_named_when_the_time_is_over_before_any_has_answered() -> None:
    """On a busy machine the error of a short time told of no address."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()

        async def ask() -> None:
            async with Brokers([(host, port)]) as brokers:
                await brokers.metadata(timeout_s=0.05)

        with pytest.raises(BrokersUnreachableError, match=f"within 0.05 s: no broker answers at {host}:{port}"):
            asyncio.run(ask())
