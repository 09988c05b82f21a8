"""Sends changes to the leader, as the `Forwarder` of the API, and makes reads on every instance as good as the
leader's.

After a forwarded change, this instance waits until it has read all that the leader had written at its answer. It looks
at the end of the topic before it answers "not found": another instance may have written the schema a moment ago, and a
consumer that looks for an id has got that id from a record.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

from penstock.protocol.errors import ApiError
from penstock.registry.errors import NotLeaderError, RegistryError, StoreTimeoutError
from penstock.registry.node.election import Identity
from penstock.registry.node.forwarding import FORWARDED, POSITION, ForwardedAnswer, Forwarder, ForwardingError
from penstock.registry.node.node import RegistryNode

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.http.routes import Endpoint, Route

_FORWARDING_FAILED = 50003
# The size of a request line (RFC 9112): servers are lenient, and the client that forwards is not.
_PRINTABLE = re.compile(rb"[!-~]+")
# A look at the end of the topic is one request to one broker. Where no broker answers, the present state has to do.
_LOOK_S = 2.0


class ToLeader:
    def __init__(self, node: RegistryNode, forwarder: Forwarder, *, wait_s: float, timeout_s: float) -> None:
        """`wait_s` is how long a change waits for a leader."""
        self._node = node
        self._forwarder = forwarder
        self._wait_s = wait_s
        self._timeout_s = timeout_s
        self.forwarded = 0
        self.failed = 0

    async def forward(self, request: Request) -> Response | None:
        """The leader's answer; None where this instance leads. Raises RegistryError 50003, 50004 and 50002.

        A leader that cannot be reached, or that does not lead any more, has written nothing: the change waits for the
        next one.
        """
        node = self._node
        is_forwarded = any(name == FORWARDED for name, _ in request.scope["headers"])
        caller = request.state.caller
        is_certified = caller is not None and caller.is_certified
        if is_forwarded and is_certified:
            raise RegistryError(403, "The certificate is that of the instance that has forwarded the request")
        failure: RegistryError = NotLeaderError("No leader is elected: try again in a moment")
        deadline = asyncio.get_running_loop().time() + self._wait_s
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    await node.wait_ready()
            except TimeoutError:
                raise failure from None
            if node.is_leader:
                return None
            if is_forwarded:
                raise NotLeaderError("This instance is not the leader, and what was forwarded is not forwarded again")
            leader = node.leader
            assert leader is not None, "ready"
            if is_certified:
                raise RegistryError(
                    403, f"A caller known by its certificate cannot be forwarded: ask the leader, {leader.url}"
                )
            answer = await self._forward_to(leader, request)
            if isinstance(answer, ForwardedAnswer) and not _says_not_leader(answer):
                await self._follow(answer)
                return _respond(answer)
            failure = answer if isinstance(answer, RegistryError) else NotLeaderError()
            try:
                async with asyncio.timeout_at(deadline):
                    await node.wait_for_other(leader)
            except TimeoutError:
                raise failure from None

    async def _forward_to(self, leader: Identity, request: Request) -> ForwardedAnswer | RegistryError:
        """The error of a leader that did not get the request. Raises where the leader may have got it."""
        scope = request.scope
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        if not _PRINTABLE.fullmatch(target):
            raise RegistryError(400, "The path or the query has characters that a URL has percent-encoded")
        body = await request.body()
        self.forwarded += 1
        try:
            return await self._forwarder.forward(leader, request.method, target, scope["headers"], body)
        except ForwardingError as error:
            self.failed += 1
            told = RegistryError(_FORWARDING_FAILED, f"Error while forwarding the request: {error}")
            if error.is_sent:
                raise told from error
            return told

    async def _follow(self, answer: ForwardedAnswer) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                # Confluent's instances do not send their position.
                position = await self._node.reader.end() if answer.position is None else answer.position
                await self._node.reader.wait_for(position)
        except (TimeoutError, OSError, ApiError):
            raise StoreTimeoutError("The leader has answered, and what it wrote was not read here in time") from None

    def stamp(self, request: Request, response: Response) -> None:  # the API calls it with both
        response.headers[POSITION.decode()] = str(self._node.position)

    def looking_again(self, endpoint: Endpoint) -> Endpoint:
        """An endpoint that answers "not found" only after a look at the end of the topic."""

        async def look(request: Request) -> Response:
            before = self._node.position
            response = await endpoint(request)
            if response.status_code == 404 and await self._has_read_more(before):
                return await endpoint(request)
            return response

        return look

    async def _has_read_more(self, before: int) -> bool:
        """The leader looks too: it may not know yet that it does not lead any more."""
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._node.catch_up()
        except (TimeoutError, OSError, ApiError):
            pass
        return self._node.position > before


def is_lookup(route: Route) -> bool:
    """Whether the route only reads. A POST to a subject looks a schema up; a DELETE of it is a change, which is made
    and audited once.
    """
    return "GET" in route.methods or ("POST" in route.methods and route.path.endswith("/subjects/{subject}"))


def _says_not_leader(answer: ForwardedAnswer) -> bool:
    if answer.status != 500:
        return False
    try:
        document = json.loads(answer.body)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("error_code") == NotLeaderError().code


def _respond(answer: ForwardedAnswer) -> Response:
    from starlette.responses import Response

    response = Response(answer.body, answer.status, media_type=answer.content_type)
    for name, value in answer.headers:
        response.headers.append(name, value)
    return response
