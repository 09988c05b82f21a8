"""One writer: decisions are made in turn, and independent decisions are written in one piece.

A decision is made on the loop, when all decisions before it were replayed, or are in the same piece and concern other
subjects. So nothing else can have changed the state behind it. A piece is one call of the log, which takes a round trip
or more: under load, all registrations that came meanwhile share it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.registry.log import Log, LogRecord
from penstock.registry.operations.decision import Decision, DecisionDraft
from penstock.registry.state import State

_Answer = TypeVar("_Answer")

# A piece is one transaction: well below the megabyte that a batch may have, unless one decision takes more.
_MOST_BYTES = 500_000
_MOST_DECISIONS = 200


@dataclass(slots=True)
class _Proposal:
    decide: Callable[[DecisionDraft], Decision[Any]]
    # None: the decision is written alone.
    subject: str | None
    done: asyncio.Future[Any]


@dataclass(slots=True)
class _Piece:
    """Decisions that are written together."""

    decided: list[tuple[_Proposal, Decision[Any]]] = field(default_factory=list)
    records: list[LogRecord] = field(default_factory=list)
    size: int = 0

    def add(self, proposal: _Proposal, decision: Decision[Any]) -> None:
        self.decided.append((proposal, decision))
        self.records += decision.records
        self.size += sum(len(record.key) + len(record.value or b"") for record in decision.records)

    @property
    def is_full(self) -> bool:
        return self.size >= _MOST_BYTES or len(self.decided) >= _MOST_DECISIONS


class RegistryWriter:
    def __init__(self, state: State, log: Log) -> None:
        self._state = state
        self._log = log
        self._draft = DecisionDraft(state)
        self._waiting: deque[_Proposal] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def submit(self, decide: Callable[[DecisionDraft], Decision[_Answer]], subject: str | None = None) -> _Answer:
        """The answer of the decision, once its records are in the log and replayed.

        With a subject, the decision gives ids and versions to that subject alone. A caller that goes away does not take
        its decision back.
        """
        done: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Proposal(decide, subject, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write(self._next_piece())
        finally:
            self._writing = None

    def _next_piece(self) -> _Piece:
        piece = _Piece()
        piece.records += self._state.overdue()
        self._draft.begin()
        while self._waiting and not piece.is_full:
            proposal = self._waiting[0]
            if proposal.subject is None and piece.decided:
                break
            if proposal.subject is not None and not self._draft.claim(proposal.subject):
                break
            self._waiting.popleft()
            self._decide(proposal, piece)
            if proposal.subject is None:
                break
        return piece

    def _decide(self, proposal: _Proposal, piece: _Piece) -> None:
        if proposal.done.cancelled():
            return
        try:
            piece.add(proposal, proposal.decide(self._draft))
        except Exception as error:  # noqa: BLE001 - the caller of this proposal gets it, and the others go on
            proposal.done.set_exception(error)

    async def _write(self, piece: _Piece) -> None:
        try:
            if piece.records:
                await self._log.write(piece.records)
        except BaseException as error:
            for proposal, _ in piece.decided:
                if not proposal.done.done():
                    proposal.done.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            if not isinstance(error, Exception):
                raise
            return
        for proposal, decision in piece.decided:
            _answer(proposal, decision)


def _answer(proposal: _Proposal, decision: Decision[Any]) -> None:
    if proposal.done.done():
        return
    try:
        proposal.done.set_result(decision.answer())
    except Exception as error:  # noqa: BLE001 - the caller gets it
        proposal.done.set_exception(error)
