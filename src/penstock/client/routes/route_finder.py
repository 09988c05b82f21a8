"""Finds out which broker a request is for, by asking any broker that is up. One try each: the caller tries again.

Callers who ask for the same thing at once share one question.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from penstock.client.addresses import Address, Heard
from penstock.client.routes.failures import may_pass
from penstock.client.routes.links import ClientClosedError, Link, Links, NobodyAnswersError
from penstock.client.routes.topology import CoordinatorKey, KnownTopic, Topology, metadata_request, refusal_of
from penstock.core.limits import MAX_TOPIC_NAME_LENGTH
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.message import Message
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

# A broker that does not answer these within the time is hung: another one is asked.
_ANSWER_TIMEOUT_S = 5.0


class RouteFinder:
    """Every coroutine raises OSError (the broker could not be asked) and ApiError (it cannot say)."""

    def __init__(self, topology: Topology, links: Links) -> None:
        self.topology = topology
        self.heard = Heard()  # of brokers that were asked what any broker knows
        self._links = links
        self._questions: dict[Hashable, asyncio.Task[None]] = {}

    async def connect_any(self, links: Links) -> Link:
        """An open link where there is one; else the first broker that can be reached."""
        failures = []
        for address in self.topology.candidates(self.heard, lambda each: links.find(each) is not None):
            try:
                return await links.get(address)
            except OSError as error:
                if not may_pass(error):
                    raise
                self.heard.note_failure(address, error)
                failures.append(f"{address[0]}:{address[1]} ({error.strerror or str(error) or type(error).__name__})")
        raise NobodyAnswersError(f"no broker answers at {', '.join(failures)}")

    async def metadata(self, request: MetadataRequest, timeout_s: float = _ANSWER_TIMEOUT_S) -> MetadataResponse:
        answer: MetadataResponse = await self._ask_any(request, timeout_s)
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code)
        self.topology.learn(answer, asyncio.get_running_loop().time())
        await self._links.keep_only(set(self.topology.addresses()))
        return answer

    async def topic(self, name: str, *, may_create: bool = False) -> KnownTopic:
        known = self.topology.topic(name, asyncio.get_running_loop().time())
        if known is None:
            if len(name) > MAX_TOPIC_NAME_LENGTH or not name.isascii():  # no question is kept for any name there is
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            await self._share(("topic", name, may_create), lambda: self._learn_topic(name, may_create))
            known = self.topology.topic(name, asyncio.get_running_loop().time())
        if known is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"nothing is known of topic {name} yet")
        return known

    async def leader(self, topic: str, partition: int) -> Address:
        await self.topic(topic)
        return self.topology.leader(topic, partition, asyncio.get_running_loop().time())

    async def node(self, node_id: int) -> Address:
        if node_id not in self.topology.nodes:
            await self._share("nodes", self._learn_nodes)
        address = self.topology.nodes.get(node_id)
        if address is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {node_id}")
        return address

    async def controller(self) -> Address:
        if self.topology.controller_id not in self.topology.nodes:
            await self._share("nodes", self._learn_nodes)
        address = self.topology.nodes.get(self.topology.controller_id)
        if address is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller right now")
        return address

    async def coordinator(self, key: CoordinatorKey) -> Address:
        address = self.topology.coordinator(key)
        if address is None:
            await self._share(key, lambda: self._learn_coordinator(key))
            address = self.topology.coordinator(key)
        if address is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return address

    async def close(self) -> None:
        questions = list(self._questions.values())
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)

    # ------------------------------------------------------------------------------------ questions

    async def _learn_topic(self, name: str, may_create: bool) -> None:
        answer = await self.metadata(metadata_request([name], may_create=may_create))
        refusal = refusal_of(answer, name)
        if refusal is not None:
            raise refusal

    async def _learn_nodes(self) -> None:
        await self.metadata(metadata_request([]))

    async def _learn_coordinator(self, key: CoordinatorKey) -> None:
        kind, name = key
        request = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name])
        answer: FindCoordinatorResponse = await self._ask_any(request, _ANSWER_TIMEOUT_S)
        found = answer.coordinators[0] if answer.coordinators else answer  # a list since version 4
        if found.error_code != ErrorCode.NONE:
            raise error_of(found.error_code, found.error_message or None)
        self.topology.learn_coordinator(key, found.node_id, (found.host, found.port))

    async def _ask_any(self, message: Message, timeout_s: float) -> Any:
        link = await self.connect_any(self._links)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await (await link.begin(message))
        except TimeoutError as error:
            self.heard.note_failure(link.address, error)
            link.end("the broker did not answer")
            raise
        self.heard.note(link.address, answered=True)
        return answer

    async def _share(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        question = self._questions.get(key)
        if question is None:
            question = self._questions[key] = asyncio.create_task(ask(), name="question about the cluster")
            question.add_done_callback(lambda done: self._note_end(key, done))
        try:
            await asyncio.shield(question)
        except asyncio.CancelledError:
            if question.cancelled():
                raise ClientClosedError("the client was closed") from None
            raise

    def _note_end(self, key: Hashable, question: asyncio.Task[None]) -> None:
        self._questions.pop(key, None)
        with contextlib.suppress(asyncio.CancelledError):
            question.exception()  # whoever waited may have been cancelled
