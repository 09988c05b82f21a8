"""The active controller: decides a change on the newest image, writes it, and publishes it, one change after another.

Sometimes the outcome of a change is not known at once: the connection may be lost before the answer comes. Until the
outcome is known the controller decides nothing else, and refuses other changes at once, with an error after which
clients try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from penstock.cluster.controller.elections_held import ElectionsHeld, count_elections
from penstock.cluster.controller.registration import Term
from penstock.cluster.controller.writer import PreparedChange, Writer
from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.reassignments import take_back_moves
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_publisher import Publisher
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.core.metrics.cluster_counters import ControllerMetrics
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Decide = Callable[[MetadataImage], Decision[Item]]

# The pause before the next question to the store about the outcome of a change: shorter than any client's patience.
_ASK_AGAIN_S = 0.2


class _Planned(NamedTuple, Generic[Item]):
    decision: Decision[Item]
    changes: Sequence[PreparedChange]  # to write one after another
    elections: ElectionsHeld


class ActiveController:
    """Open from the election until the resignation."""

    def __init__(
        self,
        term: Term,
        writer: Writer,
        publisher: Publisher,
        metrics: ControllerMetrics,
        fenced: Callable[[ActiveController], None],
    ) -> None:
        """`fenced` is called when another controller writes."""
        self.term = term
        self.is_open = True
        self.writer = writer
        self._publisher = publisher
        self._metrics = metrics
        self._fenced = fenced
        self._is_outcome_unknown = False

    async def change(self, decide: Decide[Item], *, can_refuse: bool = True) -> tuple[Item, ...]:
        """`can_refuse`: a change that this broker's disk does not allow is not made. Raises ApiError and StoreError. A
        change of more than some 10,000 partitions is made in steps, and an error may leave it half-made.
        """
        if self._is_outcome_unknown:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "it is not known yet whether the change before was made")
        async with self._in_turn():
            return await self.change_in_turn(decide, can_refuse=can_refuse)

    @contextlib.asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        metrics, now, turn = self._metrics, asyncio.get_running_loop().time, self._publisher.turn
        asked_at = now()
        metrics.waiting += 1
        try:
            await turn.acquire()
        finally:
            metrics.waiting -= 1
        began_at = now()
        metrics.queue_time_ms.observe((began_at - asked_at) * 1000)
        try:
            yield
        finally:
            turn.release()
            metrics.processing_time_ms.observe((now() - began_at) * 1000)

    async def unblock(self, node_id: int) -> None:
        """Call with the turn of the publisher held, before the first change. An earlier version may have begun to move
        more partitions of a topic than the topic's node can hold. The nodes of that change can never be written, and
        all changes wait for them. So these moves end where they began. `node_id` is this controller's.
        """
        image = self._publisher.image
        partitions = await self.writer.write_what_fits(image)
        after = take_back_moves(image, partitions)
        if after is image:
            return
        logger.error("moves of more partitions than can be stored are taken back: %s", ", ".join(partitions))
        after = replace(after, controller_id=node_id, controller_epoch=self.term.epoch)
        # In one delta: the nodes of the topics are from before the moves, and a loading broker overlays them with the
        # delta.
        for change in await asyncio.to_thread(self.writer.plan_whole, image, after):
            await self._publisher.follow(change.image, partial(self._write, change))

    async def change_in_turn(self, decide: Decide[Item], *, can_refuse: bool = True) -> tuple[Item, ...]:
        """Call with the turn of the publisher held."""
        if not self.is_open:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        before, now = self._publisher.image, asyncio.get_running_loop().time
        began_at = now()
        # In a thread: a request may name 10,000 partitions, and a change takes some 30 us for each.
        decision, changes, elections = await asyncio.to_thread(self._plan, before, decide)
        publish = self._publisher.change if can_refuse else self._publisher.follow
        for change in changes:
            await self._finish(self._publisher.image)
            if not self.is_open:  # the next controller decides about the rest
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            await publish(change.image, partial(self._write, change))
        if elections.total:
            self._metrics.leader_election_time_ms.observe((now() - began_at) * 1000)
            self._metrics.unclean_elections += elections.unclean
        return decision.results

    async def finish(self) -> None:
        """Writes the unwritten part of the newest change, if there is one."""
        async with self._publisher.turn:
            if self.is_open:
                await self._finish(self._publisher.image)

    async def has_its_log(self) -> bool:
        """False where another program has deleted or overwritten the log's position. Raises StoreError."""
        return await self.writer.has_its_log()

    def give_up(self) -> None:
        """Gives up where the log is damaged: the next elected controller writes it again."""
        self._fenced(self)

    def close(self) -> None:
        self.is_open = False

    def _plan(self, image: MetadataImage, decide: Decide[Item]) -> _Planned[Item]:
        decision = decide(image)
        changes = [] if decision.image is image else self.writer.plan(image, decision.image)
        return _Planned(decision, changes, count_elections(image, changes[-1].image if changes else image))

    async def _write(self, change: PreparedChange) -> None:
        try:
            await self._write_until_known(change)
        except StoreError as error:
            self._look_at(error)
            raise
        try:
            await self.writer.write_nodes(change.image)
        except StoreError as error:  # the change is made all the same
            logger.warning("the nodes of change %d are not all written yet: %s", change.delta.number, error)
            self._look_at(error)

    async def _finish(self, image: MetadataImage) -> None:
        try:
            await self.writer.write_nodes(image)
        except StoreError as error:
            self._look_at(error)
            raise

    async def _write_until_known(self, change: PreparedChange) -> None:
        while True:
            try:
                await self.writer.write(change)
            except StoreError as error:
                if error.kind is not StoreErrorKind.OUTCOME_UNKNOWN:
                    raise
                self._is_outcome_unknown = True
                try:
                    if await self._is_made(change, error):
                        return
                finally:
                    self._is_outcome_unknown = False
            else:
                return

    async def _is_made(self, change: PreparedChange, lost: StoreError) -> bool:
        logger.warning("it is not known whether change %d was made: %s", change.delta.number, lost)
        while self.is_open:
            try:
                return await self.writer.is_made(change)
            except StoreError as error:
                if error.kind not in _PASSING:
                    raise
            await asyncio.sleep(_ASK_AGAIN_S)
        raise lost  # the next controller knows the outcome, and this broker reads it in the log

    def _look_at(self, error: StoreError) -> None:
        if self.writer.is_fenced_by(error):
            self._fenced(self)


_PASSING = (StoreErrorKind.UNAVAILABLE, StoreErrorKind.OUTCOME_UNKNOWN, StoreErrorKind.SESSION_ENDED)
