"""What brokers ask of the controller, from the question of one broker to the answer of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from penstock.broker.peers.controller_requests import ControllerRequests
from penstock.broker.peers.peers import Peers
from penstock.broker.peers.shutdowns import Shutdowns
from penstock.broker.session import Session, UnanswerableError
from penstock.cluster.image import PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.replication.changes import AlterPartitionResult, InSyncChange, LostReplica, LostReplicaResult
from tests.unit.broker.peers.links import Network
from tests.unit.broker.peers.pair import OTHER, Pair, overlay, pair
from tests.unit.broker.served import serving
from tests.waiting import until

TOPIC_A, TOPIC_B = b"a" * 16, b"b" * 16
STATE = PartitionState(0, (2, 1), (2,), 2, leader_epoch=3, partition_epoch=4)
OTHER_EPOCH = 7


class ControllerApi:
    """The controller's side: decides by what the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, tuple[InSyncChange, ...]]] = []
        self.stopping: list[tuple[int, int]] = []
        self.lost: list[tuple[int, int, tuple[LostReplica, ...]]] = []
        self.led_count = 0
        self.error: ApiError | None = None

    async def alter_partition(
        self, asker: int, asker_epoch: int, changes: Sequence[InSyncChange]
    ) -> Sequence[AlterPartitionResult]:
        if self.error is not None:
            raise self.error
        self.asked.append((asker, asker_epoch, tuple(changes)))
        return [self._alter(change) for change in changes]

    def _alter(self, change: InSyncChange) -> AlterPartitionResult:
        if change.topic_id == TOPIC_B:
            return AlterPartitionResult(TOPIC_B, change.partition, ErrorCode.INELIGIBLE_REPLICA, None)
        isr = tuple(node for node, _ in change.isr)
        return AlterPartitionResult(
            TOPIC_A, change.partition, ErrorCode.NONE, STATE._replace(isr=isr, partition_epoch=5)
        )

    async def lose_replicas(
        self, asker: int, asker_epoch: int, lost: Sequence[LostReplica]
    ) -> Sequence[LostReplicaResult]:
        if self.error is not None:
            raise self.error
        self.lost.append((asker, asker_epoch, tuple(lost)))
        return [LostReplicaResult(*each, ErrorCode.NONE) for each in lost]

    async def begin_shutdown(self, node_id: int, broker_epoch: int) -> int:
        if self.error is not None:
            raise self.error
        self.stopping.append((node_id, broker_epoch))
        return self.led_count


class Rig:
    def __init__(self, both: Pair) -> None:
        self.both = both
        self.controller_api = ControllerApi()
        controller = both.controller.broker
        controller.controller_api = self.controller_api
        controller.shutdowns = Shutdowns(1, self.controller_api, both.peers, lambda: controller.metadata.image)
        image = both.view.image
        both.view.publish(topics={"a": TopicImage("a", TOPIC_A, (STATE,))})
        self.requests = ControllerRequests(
            OTHER,
            both.channel,
            self.controller_api,
            Shutdowns(OTHER, self.controller_api, both.peers, lambda: both.view.image),
            lambda: both.view.image,
            lambda: image.brokers[OTHER].epoch,
            Random(1).random,
        )
        # The controller of this test opened its metadata before the other broker came.
        overlay(both.controller, brokers=image.brokers)


def with_rig(directory: Path, scene: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), pair(directory) as both:
            await scene(Rig(both))

    asyncio.run(run())


def change(topic_id: bytes = TOPIC_A) -> InSyncChange:
    return InSyncChange(topic_id, 0, 3, 4, ((2, OTHER_EPOCH), (1, 1)))


class TestInSyncChanges:
    def test_answers_come_in_the_order_of_the_changes(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            wanted = [change(), change(TOPIC_B), change()._replace(partition=9)]
            results = await rig.requests.alter_partition(wanted)
            assert [(each.topic_id, each.partition, each.code) for each in results] == [
                (TOPIC_A, 0, ErrorCode.NONE),
                (TOPIC_B, 0, ErrorCode.INELIGIBLE_REPLICA),
                (TOPIC_A, 9, ErrorCode.NONE),
            ]
            # The replicas are what this broker knows; a partition that it does not know has no state.
            assert [each.state for each in results] == [STATE._replace(isr=(2, 1), partition_epoch=5), None, None]
            ((asker, _, changes),) = rig.controller_api.asked
            assert asker == OTHER
            assert sorted(changes) == sorted(wanted)

        with_rig(tmp_path, scene)

    def test_own_metadata_is_asked_when_this_broker_is_the_controller(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            rig.both.view.is_controller = True
            (result,) = await rig.requests.alter_partition([change()])
            assert result.code is ErrorCode.NONE
            assert rig.both.peers.is_connected(1) is False

        with_rig(tmp_path, scene)

    @pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR])
    def test_each_change_has_the_error_when_the_request_failed_as_a_whole(
        self, tmp_path: Path, code: ErrorCode
    ) -> None:
        async def scene(rig: Rig) -> None:
            rig.controller_api.error = ApiError(code)
            results = await rig.requests.alter_partition([change(), change(TOPIC_B)])
            assert [each.code for each in results] == [code, code]

        with_rig(tmp_path, scene)

    def test_next_controller_is_asked_when_the_first_one_is_none_any_more(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            rig.controller_api.error = ApiError(ErrorCode.NOT_CONTROLLER)
            asking = asyncio.ensure_future(rig.requests.alter_partition([change()]))
            await until(lambda: rig.both.peers.is_connected(1))
            rig.controller_api.error = None
            (result,) = await asking
            assert result.code is ErrorCode.NONE

        with_rig(tmp_path, scene)

    def test_broker_that_is_not_the_controller_says_so(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            answer = await rig.both.other.ask(AlterPartitionRequest(), 3)
            assert answer.error_code == ErrorCode.NOT_CONTROLLER

        with_rig(tmp_path, scene)

    def test_members_have_unknown_epochs_when_the_version_does_not_tell_them(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            await rig.requests.alter_partition([change()])
            sent = rig.requests._alteration([change()])
            sent.topics[0].partitions[0].new_isr = [2, 1]
            await rig.both.controller.ask(sent, 2)
            assert [changes[0].isr for _, _, changes in rig.controller_api.asked] == [
                ((2, 7), (1, 1)),
                ((2, -1), (1, -1)),
            ]

        with_rig(tmp_path, scene)


class TestLostReplicas:
    def test_controller_hears_of_each_when_they_are_reported(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            lost = [LostReplica(TOPIC_A, 0), LostReplica(TOPIC_A, 3), LostReplica(TOPIC_B, 1)]
            await rig.requests.report_lost(lost)
            epoch = rig.both.view.image.brokers[OTHER].epoch
            assert rig.controller_api.lost == [(OTHER, epoch, tuple(lost))]
            rig.controller_api.error = ApiError(ErrorCode.STALE_BROKER_EPOCH)
            with pytest.raises(ApiError):
                await rig.requests.report_lost(lost)

        with_rig(tmp_path, scene)

    def test_own_metadata_is_told_when_this_broker_is_the_controller(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            rig.both.view.is_controller = True
            await rig.requests.report_lost([LostReplica(TOPIC_A, 0)])
            assert [lost for _, _, lost in rig.controller_api.lost] == [(LostReplica(TOPIC_A, 0),)]
            answer = await rig.both.other.ask(AssignReplicasToDirsRequest(), 0)
            assert answer.error_code == ErrorCode.NOT_CONTROLLER

        with_rig(tmp_path, scene)

    def test_replica_is_refused_when_the_broker_tells_of_a_directory_for_one_that_is_not_there(
        self, tmp_path: Path
    ) -> None:
        async def scene(rig: Rig) -> None:
            controller = rig.both.controller
            state = PartitionState(0, (1,), (1,), 1)
            states = (STATE, state._replace(partition=1))
            overlay(controller, brokers=rig.both.view.image.brokers, topics={"a": TopicImage("a", TOPIC_A, states)})
            wanted = [(TOPIC_A, (0, 1, 2)), (TOPIC_B, (0,))]
            topics = [
                AssignReplicasToDirsRequestTopicData(
                    topic_id=topic_id,
                    partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=each) for each in indexes],
                )
                for topic_id, indexes in wanted
            ]
            directory = AssignReplicasToDirsRequestDirectoryData(id=b"d" * 16, topics=topics)
            answer = await controller.ask(AssignReplicasToDirsRequest(broker_id=OTHER, directories=[directory]), 0)
            assert [each.error_code for topic in answer.directories[0].topics for each in topic.partitions] == [
                ErrorCode.NONE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
            ]

        with_rig(tmp_path, scene)


class TestListeners:
    def test_clients_are_not_told_of_the_apis_of_brokers(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            served = rig.both.controller
            asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            told = {api.api_key for api in (await served.ask(asked, 4)).api_keys}
            assert {56, 58, 63, 73} <= told
            served.session = Session("1", "10.0.0.1", "OUTSIDE")
            assert {api.api_key for api in (await served.ask(asked, 4)).api_keys} == told - {56, 58, 63, 73}
            with pytest.raises(UnanswerableError):
                await served.ask(AlterPartitionRequest(), 3)
            with pytest.raises(UnanswerableError):
                await served.ask(BrokerHeartbeatRequest(), 2)

        with_rig(tmp_path, scene)

    def test_nobody_is_told_of_the_apis_of_brokers_when_there_is_one_broker(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with serving(tmp_path) as served:
                asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
                told = {api.api_key for api in (await served.ask(asked, 4)).api_keys}
                assert not {56, 58, 63, 73} & told
                with pytest.raises(UnanswerableError):
                    await served.ask(AlterPartitionRequest(), 3)

        asyncio.run(run())


class TestStopping:
    def test_broker_may_stop_when_it_leads_nothing_and_has_applied_that(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            assert await rig.requests.request_shutdown(10) is True
            assert {node for node, _ in rig.controller_api.stopping} == {OTHER}

        with_rig(tmp_path, scene)

    def test_broker_waits_when_it_still_leads(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            rig.controller_api.led_count = 3
            asking = asyncio.ensure_future(rig.requests.request_shutdown(30))
            await until(lambda: len(rig.controller_api.stopping) > 1)
            rig.controller_api.led_count = 0
            assert await asking is True

        with_rig(tmp_path, scene)

    def test_broker_stops_without_leave_when_its_time_is_up(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            rig.controller_api.led_count = 1
            assert await rig.requests.request_shutdown(0.05) is False

        with_rig(tmp_path, scene)

    def test_broker_asks_no_more_when_it_is_not_counted_any_more(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            rig.controller_api.error = ApiError(ErrorCode.STALE_BROKER_EPOCH)
            assert await rig.requests.request_shutdown(1_000) is False

        with_rig(tmp_path, scene)

    def test_controller_lets_itself_stop_when_the_others_have_applied_the_moves(self, tmp_path: Path) -> None:
        async def scene(rig: Rig) -> None:
            rig.both.view.is_controller = True
            assert await rig.requests.request_shutdown(10) is True

        with_rig(tmp_path, scene)


class TestShutdowns:
    def run(self, scene: Callable[[Network, ControllerApi, Shutdowns], Awaitable[None]]) -> None:
        async def whole() -> None:
            network, controller_api = Network(), ControllerApi()
            peers = Peers(1, network.find, network.connect, Random(1).random)
            try:
                async with asyncio.timeout(20):
                    await scene(network, controller_api, Shutdowns(1, controller_api, peers, lambda: network.image))
            finally:
                await peers.close()

        asyncio.run(whole())

    def test_broker_waits_until_every_live_broker_has_applied_the_moves(self) -> None:
        async def scene(network: Network, controller_api: ControllerApi, shutdowns: Shutdowns) -> None:
            network.add(1)
            network.add(2)
            third = network.add(3)
            network.image = replace(network.image, number=5)
            assert await shutdowns.advance(2, 1, applied=5) is False
            # Later images do not matter: only the one in which everything was moved does.
            network.image = replace(network.image, number=9)
            third.image_number = 4
            assert await shutdowns.advance(2, 1, applied=9) is False
            third.image_number = 5
            assert await shutdowns.advance(2, 1, applied=4) is False
            assert await shutdowns.advance(2, 1, applied=5) is True

        self.run(scene)

    def test_broker_waits_when_a_live_broker_does_not_answer(self) -> None:
        async def scene(network: Network, controller_api: ControllerApi, shutdowns: Shutdowns) -> None:
            network.add(1)
            network.add(2)
            network.add(3).is_away = True
            assert await shutdowns.advance(2, 1, applied=0) is False
            brokers = {node: each for node, each in network.image.brokers.items() if node != 3}
            network.image = replace(network.image, brokers=brokers)
            assert await shutdowns.advance(2, 1, applied=0) is True

        self.run(scene)

    def test_moves_are_counted_anew_when_the_broker_has_another_epoch(self) -> None:
        async def scene(network: Network, controller_api: ControllerApi, shutdowns: Shutdowns) -> None:
            network.add(1)
            network.add(2, epoch=1)
            network.image = replace(network.image, number=5)
            assert await shutdowns.advance(2, 1, applied=5) is True
            network.add(2, epoch=8)
            network.image = replace(network.image, number=9)
            assert await shutdowns.advance(2, 8, applied=5) is False

        self.run(scene)
