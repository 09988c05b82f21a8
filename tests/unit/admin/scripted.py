"""Brokers that answer what a test gives them, and tell which requests came, and by which way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from penstock.admin import AsyncAdmin
from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.protocol.message import Message
from tests.unit.admin.fake_wire import FakeWire

Answer = Message | Exception


class ScriptedBrokers(FakeWire):
    """Takes the place of `Brokers`. `answers` by request; of a list each is given once. `sent` has each request with
    the way that it took: `any 1` for a question, `node 1`, `controller`, `leader of t-0`, `coordinator of g`.
    """

    def __init__(
        self,
        answers: dict[type[Message], Answer | list[Answer]],
        topics: dict[str, int] | None = None,
        brokers: Sequence[int] = (1,),
    ) -> None:
        super().__init__(topics or {}, brokers=brokers)
        self.answers = answers
        self.sent: list[tuple[str, Any]] = []
        self.retried: set[type[Message]] = set()
        self.forgotten: list[tuple[str, int]] = []

    @property
    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(cast("Brokers", self), timeout_s=1.0)

    @property
    def ways(self) -> list[str]:
        return [way for way, _ in self.sent]

    async def ask(self, message: Message, *, retry: bool = False) -> Any:
        return self._give("any", message, retry)

    async def ask_node(self, node_id: int, message: Message, *, retry: bool = False) -> Any:
        if node_id in self.refusing:
            raise ConnectionRefusedError(111, "Connection refused")
        return self._give(f"node {node_id}", message, retry)

    async def ask_controller(self, message: Message, *, retry: bool = False) -> Any:
        return self._give("controller", message, retry)

    async def ask_leader(self, topic: str, partition: int, message: Message, *, retry: bool = False) -> Any:
        return self._give(f"leader of {topic}-{partition}", message, retry)

    async def ask_coordinator(self, kind: CoordinatorKind, key: str, message: Message, *, retry: bool = False) -> Any:
        return self._give(f"coordinator of {kind.name.lower()} {key}", message, retry)

    def forget_leader(self, topic: str, partition: int) -> None:
        self.forgotten.append((topic, partition))

    def _answer(self, node_id: int, message: Message) -> Message:
        return self._give(f"any {node_id}", message, retry=False)

    def _give(self, way: str, message: Message, retry: bool) -> Message:
        self.sent.append((way, message))
        if retry:
            self.retried.add(type(message))
        given = self.answers[type(message)]
        answer = given.pop(0) if isinstance(given, list) else given
        if isinstance(answer, Exception):
            raise answer
        return answer
