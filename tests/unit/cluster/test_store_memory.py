from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.cluster.store.interface import Check, Create, Node, SessionState, StoreError, StoreErrorKind
from penstock.cluster.store.memory import LostAnswer, MemoryStore, MemoryTree

MANY = [Create("/a"), *(Create(f"/a/{number}") for number in range(2_000))]


async def others_turns(work: asyncio.Future[Any]) -> int:
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


def test_others_get_their_turns_and_see_all_or_nothing_when_a_transaction_is_large() -> None:
    async def main() -> None:
        tree = MemoryTree()
        store, reader = MemoryStore(tree), MemoryStore(tree)
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        reading = asyncio.ensure_future(reader.children("/a"))
        assert await others_turns(writing) >= 5
        assert len(await reading) == 2_000

    asyncio.run(main())


def test_nothing_is_left_when_a_large_transaction_fails_or_is_cancelled() -> None:
    async def main() -> None:
        store = MemoryStore()
        with pytest.raises(StoreError):
            await store.transaction([*MANY, Check("/nothing", 0)])
        assert await store.children("/") == []
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert await store.children("/") == []
        await store.transaction(MANY)

    asyncio.run(main())


CONNECTED, SUSPENDED, ENDED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.ENDED


async def failed(call: Coroutine[Any, Any, object]) -> StoreErrorKind:
    with pytest.raises(StoreError) as error:
        await call
    return error.value.kind


async def reached(store: MemoryStore, state: SessionState) -> None:
    """Returns when the session has this state."""
    is_there = asyncio.Event()
    stop = store.on_session(lambda now: is_there.set() if now is state else None)
    if store.session_state is not state:
        await is_there.wait()
    stop()


def run(test: Callable[[MemoryTree], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(MemoryTree()))


def test_session_goes_on_and_watchers_are_called_when_a_reset_connection_comes_back_in_time() -> None:
    async def test(tree: MemoryTree) -> None:
        store, other = MemoryStore(tree), MemoryStore(tree)
        states: list[SessionState] = []
        told: list[str] = []
        store.on_session(states.append)
        store.watch("/b", told.append)
        await store.create("/a", ephemeral=True)
        session_id = store.session_id
        store.session.suspend()
        contact = store.last_contact
        assert await failed(store.create("/c")) is StoreErrorKind.UNAVAILABLE
        assert await failed(store.read("/a")) is StoreErrorKind.UNAVAILABLE
        await other.create("/b")
        assert store.last_contact == contact
        assert told == []
        store.session.heal()
        assert states == [SUSPENDED, CONNECTED]
        assert told == ["/b"]
        assert await store.read("/a") == Node(b"", 0, session_id)
        assert await store.read("/c") is None
        assert store.last_contact > contact

    run(test)


def test_session_ends_for_others_at_its_timeout_and_for_itself_at_the_next_contact_when_it_is_cut_off() -> None:
    async def test(tree: MemoryTree) -> None:
        store, other = MemoryStore(tree, session_timeout_ms=30), MemoryStore(tree)
        states: list[SessionState] = []
        gone = asyncio.Event()
        store.on_session(states.append)
        await store.create("/a", ephemeral=True)
        session_id = store.session_id
        other.watch("/a", lambda _: gone.set())
        store.session.cut()
        assert store.session_state is CONNECTED
        assert await failed(store.create("/b")) is StoreErrorKind.OUTCOME_UNKNOWN
        assert states == [SUSPENDED]
        await gone.wait()
        assert await other.children("/") == []
        assert (states, store.session_id) == ([SUSPENDED], session_id)
        store.session.heal()
        assert await failed(store.create("/c")) is StoreErrorKind.SESSION_ENDED
        await reached(store, CONNECTED)
        assert states == [SUSPENDED, ENDED, CONNECTED]
        assert store.session_id != session_id
        await store.create("/a", ephemeral=True)
        assert await other.read("/a") == Node(b"", 0, store.session_id)

    run(test)


def test_question_is_answered_when_a_cut_is_healed_before_it_is_noticed() -> None:
    async def test(tree: MemoryTree) -> None:
        store = MemoryStore(tree)
        store.session.cut()
        creating = asyncio.ensure_future(store.create("/a"))
        await asyncio.sleep(0)
        assert tree.entries.keys() == {"/"}
        store.session.heal()
        assert await creating == "/a"
        assert store.session_state is CONNECTED

    run(test)


def test_new_session_begins_when_the_server_ends_a_connected_one() -> None:
    async def test(tree: MemoryTree) -> None:
        store = MemoryStore(tree)
        states: list[SessionState] = []
        stop = store.on_session(states.append)
        await store.create("/a", ephemeral=True)
        store.session.expire()
        assert store.session_state is ENDED
        await reached(store, CONNECTED)
        assert states == [ENDED, CONNECTED]
        assert await store.read("/a") is None
        stop()
        store.session.expire()
        await reached(store, CONNECTED)
        assert len(states) == 2

    run(test)


@pytest.mark.parametrize(
    ("lost", "children"), [(LostAnswer.BEFORE_THE_CHANGE, []), (LostAnswer.AFTER_THE_CHANGE, ["a"])]
)
def test_outcome_is_unknown_when_the_answer_is_lost(lost: LostAnswer, children: list[str]) -> None:
    async def test(tree: MemoryTree) -> None:
        store = MemoryStore(tree)
        states: list[SessionState] = []
        store.on_session(states.append)
        store.session.lose_answer(lost)
        assert await failed(store.create("/a")) is StoreErrorKind.OUTCOME_UNKNOWN
        await reached(store, CONNECTED)
        assert states == [SUSPENDED, CONNECTED]
        assert await store.children("/") == children
        await store.create("/b")

    run(test)


def test_ephemeral_nodes_stay_until_the_timeout_when_a_store_without_connection_is_closed() -> None:
    async def test(tree: MemoryTree) -> None:
        store, other = MemoryStore(tree, session_timeout_ms=10), MemoryStore(tree)
        gone = asyncio.Event()
        await store.create("/a", ephemeral=True)
        store.session.suspend()
        await store.close()
        assert await other.children("/") == ["a"]
        other.watch("/a", lambda _: gone.set())
        await gone.wait()

    run(test)


def test_nodes_of_an_ended_session_go_after_the_transaction_when_one_is_under_way() -> None:
    async def test(tree: MemoryTree) -> None:
        store, other = MemoryStore(tree), MemoryStore(tree)
        await store.create("/passing", ephemeral=True)
        writing = asyncio.ensure_future(other.transaction([*MANY, Check("/passing", 0)]))
        await asyncio.sleep(0)
        tree.end_session(store.session_id)
        await writing
        assert await other.children("/") == ["a"]

    run(test)


def test_turn_passes_on_when_who_waits_for_it_is_cancelled() -> None:
    async def test(tree: MemoryTree) -> None:
        store = MemoryStore(tree)
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(store.read("/a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await writing
        waiting[1].cancel()  # it has the turn already, and has not run yet
        assert await waiting[2] == Node(b"", 0)
        await store.delete("/a/0")

    run(test)
