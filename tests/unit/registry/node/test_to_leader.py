"""Which changes go to the leader, and how its answers come back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.authentication import Caller
from penstock.http.routes import Route
from penstock.registry.api.table import OPERATIONS, is_change
from penstock.registry.errors import RegistryError
from penstock.registry.node.election import Identity
from penstock.registry.node.forwarding import ForwardedAnswer, Forwarder
from penstock.registry.node.node import RegistryNode
from penstock.registry.node.to_leader import ToLeader, is_lookup

CERTIFIED = Caller("User:CN=client", is_certified=True)
LEADER = Identity("leader.example", 8081, scheme="https")


class Instance:
    """One that has read everything."""

    position = 1
    leader = LEADER

    def __init__(self, *, is_leader: bool) -> None:
        self.is_leader = is_leader
        self.reader = self

    async def wait_ready(self) -> None:
        pass

    async def wait_for(self, position: int) -> None:
        pass


class Wire(Forwarder):
    def __init__(self, answer: ForwardedAnswer) -> None:
        super().__init__(None, 1)
        self.answer = answer
        self.targets: list[bytes] = []

    async def forward(
        self, leader: Identity, method: str, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> ForwardedAnswer:
        self.targets.append(target)
        return self.answer


def asked(
    caller: Caller | None = None, headers: Sequence[tuple[bytes, bytes]] = (), query: bytes = b"", method: str = "POST"
) -> Request:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    scope = {
        "type": "http",
        "method": method,
        "raw_path": b"/subjects/s/versions",
        "query_string": query,
        "headers": list(headers),
        "state": {"caller": caller},
    }
    return Request(scope, receive)


def to_leader(wire: Wire, *, is_leader: bool = False) -> ToLeader:
    return ToLeader(cast("RegistryNode", Instance(is_leader=is_leader)), wire, wait_s=1, timeout_s=1)


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Basic bm9ib2R5Og==")]])
def test_change_is_refused_with_the_leaders_url_when_its_caller_is_known_by_a_certificate(
    headers: list[tuple[bytes, bytes]],
) -> None:
    wire = Wire(ForwardedAnswer(200, None, 1, b""))
    with pytest.raises(RegistryError, match=r"https://leader\.example:8081") as refused:
        asyncio.run(to_leader(wire).forward(asked(CERTIFIED, headers)))
    assert (refused.value.code, wire.targets) == (403, [])


def test_leader_refuses_what_was_forwarded_when_it_knows_the_caller_by_the_others_certificate() -> None:
    leader = to_leader(Wire(ForwardedAnswer(200, None, 1, b"")), is_leader=True)
    with pytest.raises(RegistryError, match="certificate"):
        asyncio.run(leader.forward(asked(CERTIFIED, [(b"x-forward", b"true")])))
    assert asyncio.run(leader.forward(asked(CERTIFIED))) is None
    assert asyncio.run(leader.forward(asked(Caller("User:alice"), [(b"x-forward", b"true")]))) is None


def test_change_is_forwarded_when_its_caller_has_logged_in_with_a_password() -> None:
    wire = Wire(ForwardedAnswer(200, None, 1, b"made"))
    response = asyncio.run(to_leader(wire).forward(asked(Caller("User:alice"))))
    assert response is not None
    assert (response.body, wire.targets) == (b"made", [b"/subjects/s/versions"])


def test_caller_is_told_how_to_log_in_and_when_to_come_again_when_the_leader_says_so() -> None:
    told = (("www-authenticate", "Basic"), ("www-authenticate", "Bearer"), ("retry-after", "1"))
    response = asyncio.run(to_leader(Wire(ForwardedAnswer(401, "application/json", 1, b"{}", told))).forward(asked()))
    assert response is not None
    assert set(told) <= {(name.decode(), value.decode()) for name, value in response.raw_headers}


def test_change_is_refused_at_once_when_its_target_cannot_be_forwarded() -> None:
    wire = Wire(ForwardedAnswer(200, None, 1, b""))
    with pytest.raises(RegistryError, match="percent-encoded") as refused:
        asyncio.run(to_leader(wire).forward(asked(query=b"normalize=\xff")))
    assert (refused.value.code, wire.targets) == (400, [])


def test_no_change_is_done_twice_when_it_answers_that_something_is_not_there() -> None:
    async def serve(request: Request) -> Response:
        raise AssertionError("only the row counts")

    looked_up = [each for each in OPERATIONS if is_lookup(Route(each.path, serve, (each.method,)))]
    assert [each.name for each in looked_up if is_change(each)] == []
    assert "LookUpSchema" in {each.name for each in looked_up}
