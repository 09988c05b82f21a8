"""The controller's operations for the brokers of its cluster, and for administrators: leaders, replicas, dead brokers.

A broker that is not the controller refuses with ApiError(NOT_CONTROLLER); every broker serves `report_dead` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from penstock.cluster.controller.active_controller import Decide
from penstock.cluster.controller.known_losses import KnownLosses
from penstock.cluster.controller.move_steps import MoveSteps
from penstock.cluster.decisions.brokers import decide_unregister
from penstock.cluster.decisions.elections import ElectionResult, ElectionType, decide_elections
from penstock.cluster.decisions.lost_replicas import decide_lost_replicas
from penstock.cluster.decisions.partitions import Alteration, can_wait, decide_alter_partition
from penstock.cluster.decisions.reassignments import ReassignmentRequest, ReassignmentResult, decide_reassignments
from penstock.cluster.decisions.shutdown import decide_shutdown
from penstock.cluster.image import TopicImage
from penstock.cluster.image_publisher import Publisher
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Delete, Store, StoreError, StoreErrorKind
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import AlterPartitionResult, InSyncChange, LostReplica, LostReplicaResult

Item = TypeVar("Item")


class Change(Protocol):
    async def __call__(self, decide: Decide[Item]) -> tuple[Item, ...]: ...


class ControllerApi:
    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        change: Change,
        may_be_unclean: Callable[[TopicImage], bool],
        minimum_of: Callable[[TopicImage], int],
    ) -> None:
        self.losses = KnownLosses()
        self._store = store
        self._publisher = publisher
        self._change = change
        self._may_be_unclean = may_be_unclean
        self._minimum_of = minimum_of
        self.move_steps = MoveSteps(change)

    async def close(self) -> None:
        await self.move_steps.close()

    async def alter_partition(
        self, asker: int, asker_epoch: int, changes: Sequence[InSyncChange]
    ) -> tuple[AlterPartitionResult, ...]:
        """A leader requests other in-sync sets. Steps of moves wait for each other."""
        if changes and can_wait(self._publisher.image, changes, self._minimum_of):
            return await self.move_steps.make(Alteration(asker, asker_epoch, changes))
        return await self._change(lambda image: decide_alter_partition(image, asker, asker_epoch, changes))

    async def lose_replicas(
        self, asker: int, asker_epoch: int, lost: Sequence[LostReplica]
    ) -> tuple[LostReplicaResult, ...]:
        """A broker's disk has failed."""
        results = await self._change(
            lambda image: decide_lost_replicas(image, asker, asker_epoch, lost, self._may_be_unclean)
        )
        self.losses.note(self._publisher.image, asker, asker_epoch, lost)
        return results

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election_type: ElectionType
    ) -> tuple[ElectionResult, ...]:
        """None: of all partitions."""
        return await self._change(lambda image: decide_elections(image, partitions, election_type))

    async def reassign_partitions(
        self, requests: Sequence[ReassignmentRequest], *, may_change_replication_factor: bool = True
    ) -> tuple[ReassignmentResult, ...]:
        """Moves replicas to other brokers, or cancels the move."""
        return await self._change(
            lambda image: decide_reassignments(
                image,
                requests,
                self._may_be_unclean,
                may_change_replication_factor=may_change_replication_factor,
            )
        )

    async def begin_shutdown(self, node_id: int, broker_epoch: int) -> int:
        """A broker wants to stop: its leaderships move. Returns the number of partitions that it still leads."""
        (led_count,) = await self._change(lambda image: decide_shutdown(image, node_id, broker_epoch))
        return led_count

    async def unregister(self, node_id: int) -> None:
        """A broker is gone for good: no new topic counts on it any more. A running broker is fenced and registers again
        at once (in Kafka at its next start). It keeps its leaderships where it is back before the controller has
        removed it. If it is the controller, its term ends as well. Raises ApiError.
        """
        await self._change(lambda image: decide_unregister(image, node_id))
        broker = self._publisher.image.brokers.get(node_id)
        if broker is not None:
            await self.report_dead(node_id, broker.epoch)

    async def report_dead(self, node_id: int, broker_epoch: int) -> None:
        """The process of the broker with this epoch is dead: its registration ends before its session, and its term
        with it if it was the controller. If the broker lives after all, its epochs fence it, and it registers again.
        Raises ApiError.
        """
        try:
            await self.remove(node_id, broker_epoch)
        except StoreError as error:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)) from error

    async def remove(self, node_id: int, broker_epoch: int) -> None:
        """The same, with the store's own errors."""
        path = znodes.broker_path(node_id)
        node, controller = await self._store.read_many([path, znodes.CONTROLLER])
        if node is None or znodes.decode_broker(node_id, node.data).epoch != broker_epoch:
            return
        gone = [Delete(path, node.version)]
        if controller is not None and controller.owner == node.owner:
            gone.append(Delete(znodes.CONTROLLER, controller.version))
        try:
            await self._store.transaction(gone)
        except StoreError as error:
            if error.kind not in (StoreErrorKind.NO_NODE, StoreErrorKind.BAD_VERSION, StoreErrorKind.OUTCOME_UNKNOWN):
                raise
