"""A broker's own requests to the controller: change in-sync sets, count lost replicas as dead, let the broker stop.

Where this broker is the controller, the requests go to its own metadata.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.broker.peers.controller import Controller
from penstock.broker.peers.controller_port import ControllerPort
from penstock.broker.peers.peers import PeerUnavailableError
from penstock.broker.peers.shutdowns import Shutdowns
from penstock.cluster.image import MetadataImage
from penstock.core.time.backoff import Backoff, Chance, Pauses
from penstock.core.types import TopicId
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
)
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.replication.changes import LOST_DIRECTORY, AlterPartitionResult, InSyncChange, LostReplica

logger = logging.getLogger(__name__)

# After this time the request counts as failed. The leader checks its followers again and sends a new request.
_IN_SYNC_TIMEOUT_S = 10.0
# The pause between two requests to stop. Moves take some milliseconds each, and only the operator waits.
_BACKOFF = Backoff(0.02, 0.5)

Answer = TypeVar("Answer", AlterPartitionResponse, AssignReplicasToDirsResponse, BrokerHeartbeatResponse)


class ControllerRequests:
    def __init__(
        self,
        node_id: int,
        controller: Controller,
        controller_api: ControllerPort,
        shutdowns: Shutdowns,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        chance: Chance,
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._controller_api = controller_api
        self._shutdowns = shutdowns
        self._image = image
        self._broker_epoch = broker_epoch
        self._chance = chance

    # ------------------------------------------------------------------------------------ in-sync sets

    async def alter_partition(self, changes: Sequence[InSyncChange]) -> Sequence[AlterPartitionResult]:
        """One result for each change, in their order. When the request as a whole failed, each change has its error:
        REQUEST_TIMED_OUT when no controller answered.
        """
        try:
            answer: AlterPartitionResponse | None = await self._controller.ask(
                self._alteration(changes), _accept, timeout_s=_IN_SYNC_TIMEOUT_S
            )
            if answer is None:
                return await self._controller_api.alter_partition(self._node_id, self._broker_epoch(), changes)
        except PeerUnavailableError as error:
            logger.warning("%d in-sync sets could not be changed: %s", len(changes), error)
            return _refuse_all(changes, ErrorCode.REQUEST_TIMED_OUT)
        except ApiError as error:
            return _refuse_all(changes, error.code)
        if answer.error_code != ErrorCode.NONE:
            return _refuse_all(changes, ErrorCode(answer.error_code))
        return self._results(changes, answer)

    def _alteration(self, changes: Sequence[InSyncChange]) -> AlterPartitionRequest:
        topics: dict[TopicId, AlterPartitionRequestTopicData] = {}
        for topic_id, partition, leader_epoch, partition_epoch, isr in changes:
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition,
                    leader_epoch=leader_epoch,
                    partition_epoch=partition_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=node, broker_epoch=epoch) for node, epoch in isr],
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _results(
        self, changes: Sequence[InSyncChange], answer: AlterPartitionResponse
    ) -> Sequence[AlterPartitionResult]:
        told = {(topic.topic_id, each.partition_index): each for topic in answer.topics for each in topic.partitions}
        image = self._image()
        return [_result(image, change, told.get((change.topic_id, change.partition))) for change in changes]

    # ------------------------------------------------------------------------------------ lost replicas

    async def report_lost(self, lost: Sequence[LostReplica]) -> None:
        """Raises ApiError or PeerUnavailableError when the report does not reach the controller. The next image shows
        whether the report counted; if not, the broker reports again.
        """
        topics: dict[TopicId, AssignReplicasToDirsRequestTopicData] = {}
        for topic_id, partition in lost:
            topic = topics.setdefault(topic_id, AssignReplicasToDirsRequestTopicData(topic_id=topic_id))
            topic.partitions.append(AssignReplicasToDirsRequestPartitionData(partition_index=partition))
        directory = AssignReplicasToDirsRequestDirectoryData(id=LOST_DIRECTORY, topics=list(topics.values()))
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), directories=[directory]
        )
        answer: AssignReplicasToDirsResponse | None = await self._controller.ask(
            request, _accept, timeout_s=_IN_SYNC_TIMEOUT_S
        )
        if answer is None:
            await self._controller_api.lose_replicas(self._node_id, self._broker_epoch(), lost)
        elif answer.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(answer.error_code))

    # ------------------------------------------------------------------------------------ stopping

    async def request_shutdown(self, deadline_s: float) -> bool:
        """Asks until the controller lets this broker stop. False when the controller did not within `deadline_s`; the
        broker stops all the same, and clients see it go.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        pauses = Pauses(_BACKOFF, self._chance)
        while True:
            try:
                if await self._may_stop(deadline - loop.time()):
                    return True
            except (ApiError, PeerUnavailableError) as error:
                logger.warning("this broker could not ask for leave to stop: %s", error)
                if isinstance(error, ApiError) and error.code is ErrorCode.STALE_BROKER_EPOCH:
                    return False  # the controller does not count this broker any more: nothing has to move
            pause_s = pauses.next_s()
            if loop.time() + pause_s >= deadline:
                return False
            await asyncio.sleep(pause_s)

    async def _may_stop(self, timeout_s: float) -> bool:
        epoch, applied = self._broker_epoch(), self._image().number
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id, broker_epoch=epoch, current_metadata_offset=applied, want_shut_down=True
        )
        answer: BrokerHeartbeatResponse | None = await self._controller.ask(request, _accept, timeout_s=timeout_s)
        if answer is None:
            try:
                async with asyncio.timeout(timeout_s):  # the store may be away
                    return await self._shutdowns.advance(self._node_id, epoch, applied)
            except TimeoutError:
                return False
        if answer.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(answer.error_code))
        return answer.should_shut_down


def _result(image: MetadataImage, change: InSyncChange, told: PartitionData | None) -> AlterPartitionResult:
    """The answer does not name the replicas, which this broker knows. A topic unknown to this broker has no state: the
    leader stops leading by the same image.
    """
    if told is None:
        return AlterPartitionResult(change.topic_id, change.partition, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    code = ErrorCode(told.error_code)
    topic = image.topics_by_id.get(change.topic_id)
    known = None if topic is None else topic.partition(change.partition)
    if known is None or code not in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
        return AlterPartitionResult(change.topic_id, change.partition, code, None)
    state = known._replace(
        isr=tuple(told.isr),
        leader=told.leader_id,
        leader_epoch=told.leader_epoch,
        partition_epoch=told.partition_epoch,
    )
    return AlterPartitionResult(change.topic_id, change.partition, code, state)


def _refuse_all(changes: Sequence[InSyncChange], code: ErrorCode) -> Sequence[AlterPartitionResult]:
    return [AlterPartitionResult(change.topic_id, change.partition, code, None) for change in changes]


async def _accept(answer: Answer) -> Answer | None:
    return None if answer.error_code == ErrorCode.NOT_CONTROLLER else answer
