"""Brokers without logs on one store: who is the controller, and what the others know."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.controller.balance import Balance
from penstock.cluster.decisions.decision import FullChange, NewPartitions, NewTopic, TopicSelector
from penstock.cluster.deltas.position import LogPosition, encode_position
from penstock.cluster.image_loader import load_image
from penstock.cluster.metadata import Disks
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_session import LostAnswer
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import InSyncChange
from tests.unit.cluster.brokers import TIMEOUT_MS, WITH_NODES, TestBroker, agreed, controller, rested, started
from tests.unit.cluster.harness import run
from tests.waiting import until


async def create(broker: TestBroker, name: str, partitions: int = 1, factor: int = 1) -> ErrorCode:
    (result,) = await broker.metadata.create_topics([NewTopic(name, partitions, factor)])
    return result.code


def test_all_brokers_have_the_same_image_when_the_controller_changes_something() -> None:
    async def main() -> None:
        first, second, third = brokers = await started(MemoryTree(), 1, 2, 3)
        assert [each.metadata.is_controller for each in brokers] == [True, False, False]
        assert await create(first, "a", 6, 3) is ErrorCode.NONE
        await first.metadata.create_partitions([NewPartitions("a", 8)])
        await first.metadata.alter_configs([FullChange(2, "a", (("retention.ms", "5"),))])
        await agreed(*brokers)
        assert second.metadata.image.topics["a"].configs == {"retention.ms": "5"}
        assert third.metadata.image.brokers.keys() == {1, 2, 3}
        assert {each.metadata.controller_id for each in brokers} == {1}
        assert await load_image(third.store) == third.metadata.image
        await first.metadata.delete_topics([TopicSelector("a")])
        await agreed(*brokers)
        assert not second.metadata.image.topics

    run(main())


def test_broker_has_its_own_settings_when_the_controller_changed_them() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2)
        (result,) = await first.metadata.alter_configs([FullChange(4, "2", (("message.max.bytes", "1000"),))])
        assert result.code is ErrorCode.NONE
        await agreed(first, second)
        assert second.metadata.config.get("message.max.bytes") == 1000
        assert first.metadata.config.get("message.max.bytes") != 1000
        (result,) = await first.metadata.alter_configs([FullChange(4, "nine", ())])
        assert result.code is ErrorCode.INVALID_REQUEST

    run(main())


def test_another_broker_takes_over_when_the_controllers_session_ends() -> None:
    async def main() -> None:
        first, second, third = brokers = await started(MemoryTree(), 1, 2, 3)
        await create(first, "a", 9, 3)
        old_epoch = first.metadata.broker_epoch
        first.store.session.cut()
        await until(lambda: second.metadata.is_controller or third.metadata.is_controller)
        after = controller(second, third)
        await agreed(second, third)
        image = after.metadata.image
        assert image.brokers.keys() == {2, 3}
        assert image.controller_id == after.node_id
        assert image.controller_epoch == 2
        assert all(state.leader in (2, 3) and 1 not in state.isr for state in image.topics["a"].partitions)
        first.store.session.heal()
        await until(lambda: first.metadata.broker_epoch > old_epoch)
        await agreed(*brokers)
        assert not first.metadata.is_controller
        assert first.metadata.image.brokers.keys() == {1, 2, 3}
        assert await create(after, "b", 3, 3) is ErrorCode.NONE
        await agreed(*brokers)

    run(main())


def test_old_controller_writes_nothing_when_another_was_elected_meanwhile() -> None:
    """Its session ended while it was cut off, and it does not know: the fence alone stops it."""

    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2)
        await create(first, "a")
        first.store.session.cut()
        await until(lambda: second.metadata.is_controller)
        assert first.metadata.is_controller, "nobody told it"
        zombie = asyncio.ensure_future(create(first, "zombie"))
        await create(second, "b")
        first.store.session.heal()
        with pytest.raises(ApiError) as error:
            await zombie
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        await agreed(first, second)
        assert first.metadata.image.topics.keys() == {"a", "b"}
        with pytest.raises(ApiError) as error:
            await create(first, "c")
        assert error.value.code is ErrorCode.NOT_CONTROLLER

    run(main())


def test_controller_is_fenced_when_its_node_was_taken_away_while_its_session_lives() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = brokers = await started(tree, 1, 2)
        await MemoryStore(tree).delete("/controller")
        await until(lambda: sum(each.metadata.image.controller_epoch == 2 for each in brokers) == 2)
        assert sum(each.metadata.is_controller for each in brokers) == 1
        assert await create(controller(first, second), "a") is ErrorCode.NONE
        await agreed(*brokers)

    run(main())


@pytest.mark.parametrize("lost", list(LostAnswer))
def test_change_is_made_once_when_the_answer_to_it_is_lost(lost: LostAnswer) -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2)
        before = first.metadata.image.number
        await rested(first)  # the answer is to be that of the change, and not that of the picture
        first.store.session.lose_answer(lost)
        assert await create(first, "a") is ErrorCode.NONE
        assert first.metadata.image.number == before + 1
        assert first.metadata.is_controller
        assert await create(first, "b") is ErrorCode.NONE
        await agreed(first, second)
        assert second.metadata.image.topics.keys() == {"a", "b"}

    run(main())


@pytest.mark.parametrize("lost", list(LostAnswer))
def test_broker_registers_once_when_the_answer_is_lost(lost: LostAnswer) -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        second = TestBroker(tree, 2)
        second.store.session.lose_answer(lost)
        await second.start()
        await agreed(first, second)
        assert second.metadata.image.brokers[2].epoch == second.metadata.broker_epoch
        assert await second.store.children("/brokers/ids") == ["1", "2"]
        # The first transaction of a lonely broker also elects it.
        lonely = TestBroker(MemoryTree(), 1)
        await lonely.start()
        await lonely.stop()

    run(main())


@pytest.mark.parametrize("lost", list(LostAnswer))
def test_broker_is_controller_once_when_the_answer_to_its_election_is_lost(lost: LostAnswer) -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2)
        second.store.session.lose_answer(lost)
        await first.stop()
        await until(lambda: second.metadata.is_controller)
        assert second.metadata.image.controller_epoch == 2
        assert await create(second, "a") is ErrorCode.NONE
        assert await load_image(second.store) == second.metadata.image

    run(main())


def test_change_is_refused_at_once_when_the_outcome_of_the_one_before_is_not_known() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2)
        end = second.store.watch("/penstock/log", lambda _: first.store.session.suspend())
        pending = asyncio.ensure_future(create(first, "a"))
        await until(lambda: "a" in second.metadata.image.topics)
        end()
        with pytest.raises(ApiError) as error:
            await create(first, "b")
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        assert "a" not in first.metadata.image.topics
        first.store.session.heal()
        assert await pending is ErrorCode.NONE
        await agreed(first, second)

    run(main())


def test_registration_is_new_when_the_session_ended() -> None:
    async def main() -> None:
        first, second = brokers = await started(MemoryTree(), 1, 2)
        await create(first, "a", 4, 2)
        epoch = second.metadata.broker_epoch
        second.store.session.expire()
        await until(lambda: second.metadata.broker_epoch > epoch)
        await agreed(*brokers)
        image = first.metadata.image
        assert image.brokers[2].epoch == second.metadata.broker_epoch
        assert image.brokers[2].previous_epoch == epoch

    run(main())


def test_all_lead_on_in_their_terms_when_the_sessions_of_all_end_at_once() -> None:
    """A frozen store goes on. The first broker that is back is elected before the others have come."""

    async def main() -> None:
        brokers = await started(MemoryTree(), 1, 2, 3)
        await create(brokers[0], "a", 6, 3)
        await agreed(*brokers)
        topics, epochs = brokers[0].metadata.image.topics, [each.metadata.broker_epoch for each in brokers]
        assert {state.leader for state in topics["a"].partitions} == {1, 2, 3}
        for each in brokers:
            each.store.session.expire()
        await until(lambda: all(each.metadata.broker_epoch > max(epochs) for each in brokers))
        await agreed(*brokers)
        assert all(each.metadata.image.topics == topics for each in brokers)
        assert await create(controller(*brokers), "b") is ErrorCode.NONE

    run(main())


def test_the_others_lead_when_the_sessions_of_all_end_and_one_broker_stays_away() -> None:
    async def main() -> None:
        first, second, third = await started(MemoryTree(), 1, 2, 3)
        await create(first, "a", 6, 3)
        await agreed(first, second, third)
        before = first.metadata.image.topics["a"].partitions
        third.store.session.cut()  # it cannot come back
        for each in (first, second, third):
            each.store.session.expire()
        await until(lambda: all(each.metadata.image.brokers.keys() == {1, 2} for each in (first, second)))
        for old, new in zip(before, first.metadata.image.topics["a"].partitions, strict=True):
            assert new.isr == tuple(node for node in old.isr if node != 3)
            assert (new.leader, new.leader_epoch) == (old.leader, 0) if old.leader != 3 else new.leader_epoch == 1

    run(main())


@pytest.mark.parametrize("survivor", [1, 2])
def test_all_lead_on_in_their_terms_when_the_sessions_of_all_but_one_end_at_once(survivor: int) -> None:
    """A frozen store goes on, and spares the controller or another broker. The others are back a moment later."""

    async def main() -> None:
        brokers = await started(MemoryTree(), 1, 2, 3)
        await create(brokers[0], "a", 6, 3)
        await agreed(*brokers)
        topics, epochs = brokers[0].metadata.image.topics, [each.metadata.broker_epoch for each in brokers]
        others = [each for each in brokers if each.node_id != survivor]
        for each in others:
            each.store.session.cut()
        for each in others:
            each.store.session.expire()
            asyncio.get_running_loop().call_later(0.5, each.store.session.heal)
        await until(lambda: all(each.metadata.broker_epoch > max(epochs) for each in others))
        await agreed(*brokers)
        assert brokers[survivor - 1].metadata.broker_epoch == epochs[survivor - 1]
        assert all(each.metadata.image.topics == topics for each in brokers)
        assert await create(controller(*brokers), "b") is ErrorCode.NONE

    run(main())


@pytest.mark.parametrize("survivor", [1, 2])
def test_one_broker_leads_alone_when_all_the_others_stay_away(survivor: int) -> None:
    async def main() -> None:
        brokers = await started(MemoryTree(), 1, 2, 3)
        await create(brokers[0], "a", 6, 3)
        await agreed(*brokers)
        others = [each for each in brokers if each.node_id != survivor]
        for each in others:
            each.store.session.cut()
        for each in others:
            each.store.session.expire()
        metadata = brokers[survivor - 1].metadata
        await until(lambda: metadata.image.brokers.keys() == {survivor})
        states = metadata.image.topics["a"].partitions
        assert all((state.leader, state.isr) == (survivor, (survivor,)) for state in states)

    run(main())


def test_broker_that_was_counted_is_not_empty_any_more_when_it_registers_anew() -> None:
    """It began with empty directories, and has got records since then. Somebody unregisters it while it is away."""

    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        second = await TestBroker(tree, 2).start(disks=Disks(("disk-2",), are_empty=True))
        assert [each.is_empty for each in first.metadata.image.brokers.values()] == [False, True]
        await first.metadata.create_topics([NewTopic("a", assignments=((0, (2,)),))])
        epoch = second.metadata.broker_epoch
        second.store.session.cut()
        await until(lambda: 2 not in first.metadata.image.brokers)
        await first.metadata.controller_api.unregister(2)
        second.store.session.heal()
        await until(lambda: second.metadata.broker_epoch > epoch)
        await agreed(first, second)
        assert [each.is_empty for each in first.metadata.image.brokers.values()] == [False, False]
        (state,) = first.metadata.image.topics["a"].partitions
        assert (state.leader, state.isr) == (2, (2,))

    run(main())


def test_broker_is_still_empty_when_its_session_ended_before_it_was_counted() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        first.store.session.suspend()  # nobody counts
        second, keeper, registered = TestBroker(tree, 2), MemoryStore(tree), asyncio.Event()
        assert await keeper.read("/brokers/ids/2") is None
        keeper.watch("/brokers/ids/2", lambda _: registered.set())
        joining = asyncio.ensure_future(second.start(disks=Disks(("disk-2",), are_empty=True)))
        await registered.wait()
        second.store.session.expire()
        first.store.session.heal()
        await joining
        await agreed(first, second)
        assert first.metadata.image.brokers[2].previous_epoch > 0
        assert first.metadata.image.brokers[2].is_empty

    run(main())


def test_controller_serves_again_when_its_own_session_ended() -> None:
    async def main() -> None:
        (only,) = await started(MemoryTree(), 1)
        await create(only, "a")
        only.store.session.expire()
        await until(lambda: only.metadata.is_controller and only.metadata.image.controller_epoch == 2)
        assert only.metadata.image.topics["a"].partitions[0].leader_epoch == 0  # nobody else can have led
        assert await create(only, "b") is ErrorCode.NONE

    run(main())


def test_broker_waits_for_its_former_self_when_it_starts_within_its_session(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2)
        second.store.session.cut()  # killed: nobody closes its session
        again = TestBroker(tree, 2)
        await again.start(takeover_s=20 * TIMEOUT_MS / 1000)
        await agreed(first, again)
        assert again.metadata.broker_epoch > second.metadata.broker_epoch

    run(main())
    assert "the session of a former self" in caplog.text


def test_start_is_refused_when_somebody_else_keeps_the_node_id() -> None:
    async def main() -> None:
        tree = MemoryTree()
        await started(tree, 1, 2)
        with pytest.raises(StoreError, match=r"node\.id 2 is already running"):
            await TestBroker(tree, 2).start(takeover_s=0.05)

    run(main())


def test_broker_leaves_when_its_death_is_reported() -> None:
    async def main() -> None:
        first, second, third = await started(MemoryTree(), 1, 2, 3)
        third.store.session.cut()
        epoch = third.metadata.broker_epoch
        await first.metadata.controller_api.report_dead(3, epoch - 1)  # of an earlier life
        await first.metadata.controller_api.report_dead(9, 1)
        assert await first.store.read("/brokers/ids/3") is not None
        await first.metadata.controller_api.report_dead(3, epoch)
        await until(lambda: 3 not in first.metadata.image.brokers)
        await agreed(first, second)

    run(main())


def test_broker_registers_anew_when_its_node_was_deleted_by_mistake() -> None:
    async def main() -> None:
        first, second = brokers = await started(MemoryTree(), 1, 2)
        epoch = second.metadata.broker_epoch
        await first.metadata.controller_api.report_dead(2, epoch)
        await until(lambda: second.metadata.broker_epoch > epoch)
        await agreed(*brokers)
        assert first.metadata.image.brokers[2].epoch == second.metadata.broker_epoch

    run(main())


def test_broker_catches_up_when_it_missed_deltas() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2)
        second.store.session.suspend()
        for name in "abc":
            await create(first, name)
        await first.metadata.delete_topics([TopicSelector("a")])
        seen: list[list[str]] = []
        second.metadata.subscribe(lambda _old, new: seen.append(sorted(new.topics)))
        second.store.session.heal()
        await agreed(first, second)
        assert seen == [["b", "c"]]

    run(main())


def test_broker_loads_everything_when_the_log_does_not_keep_what_it_missed() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2, levels=WITH_NODES)
        await create(first, "a", 2, 2)
        second.store.session.suspend()
        for number in range(3):
            await create(first, f"missed-{number}")
        keeper = MemoryStore(tree)
        for name in (await keeper.children("/penstock/log"))[:-1]:
            await keeper.delete(f"/penstock/log/{name}")
        second.store.session.heal()
        await agreed(first, second)

    run(main())


def test_broker_keeps_its_image_when_the_store_has_lost_changes(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2)
        await create(first, "a")
        await agreed(first, second)
        number = second.metadata.image.number
        position = encode_position(LogPosition(number - 1))
        await MemoryStore(tree).compare_and_set("/penstock/log", position, None)
        await until(lambda: "the store has lost changes" in caplog.text)
        assert second.metadata.image.number == number
        with pytest.raises(ApiError) as error:
            await create(first, "b")
        assert error.value.code is ErrorCode.NOT_CONTROLLER

    run(main())


def test_leaderships_move_when_a_broker_is_about_to_stop() -> None:
    async def main() -> None:
        first, second = brokers = await started(MemoryTree(), 1, 2)
        await create(first, "a", 4, 2)
        assert await first.metadata.controller_api.begin_shutdown(2, second.metadata.broker_epoch) == 0
        await agreed(*brokers)
        image = second.metadata.image
        assert image.brokers[2].is_stopping
        assert all(state.leader == 1 and state.isr == (1,) for state in image.topics["a"].partitions)
        with pytest.raises(ApiError) as error:
            await first.metadata.controller_api.begin_shutdown(2, 1)
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH

    run(main())


def test_preferred_replicas_lead_again_when_the_controller_looks() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2)
        await create(first, "a", 6, 2)
        epoch = second.metadata.broker_epoch
        second.store.session.expire()
        await until(lambda: first.metadata.image.brokers.get(2, first.metadata.image.brokers[1]).epoch > epoch)
        topic = first.metadata.image.topics["a"]
        assert {state.leader for state in topic.partitions} == {1}
        # Both are in sync again.
        changes = [
            InSyncChange(topic.topic_id, state.partition, state.leader_epoch, state.partition_epoch, ((1, -1), (2, -1)))
            for state in topic.partitions
        ]
        results = await first.metadata.controller_api.alter_partition(1, first.metadata.broker_epoch, changes)
        assert {result.code for result in results} == {ErrorCode.NONE}
        member = first.metadata._member
        assert member is not None
        assert member.active_controller is not None
        Balance(member.active_controller, first.metadata.publisher, first_look_s=0.0)
        await until(lambda: {state.leader for state in first.metadata.image.topics["a"].partitions} == {1, 2})
        await agreed(first, second)

    run(main())
