"""What every store promises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Delete,
    Node,
    Operation,
    SessionState,
    Store,
    StoreError,
    StoreErrorKind,
    TransactionLimit,
    transaction_size,
)
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS, MAX_STORE_VALUE_BYTES

# So many that others get their turns before all of it is done.
MANY = [Create("/a"), *(Create(f"/a/{number}") for number in range(1_000))]

LIMIT = TransactionLimit(MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS)

# Opens a session on the same store each time it is called.
Opener = Callable[[], Awaitable[Store]]


@pytest.fixture(params=["memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    tree = MemoryTree()

    async def open_memory() -> Store:
        return MemoryStore(tree, transaction_limit=LIMIT)

    async def open_sqlite() -> Store:
        return await SqliteStore.open(tmp_path / "metadata.db")

    return {"memory": open_memory, "sqlite": open_sqlite}[request.param]


def with_store(opener: Opener, test: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await opener()
        try:
            await test(store)
        finally:
            await store.close()

    asyncio.run(main())


async def refused(kind: StoreErrorKind, call: Awaitable[object]) -> str:
    with pytest.raises(StoreError) as error:
        await call
    assert error.value.kind is kind
    return error.value.path


def test_node_is_read_with_version_zero_when_created(opener: Opener) -> None:
    async def test(store: Store) -> None:
        assert await store.read("/a") is None
        assert await store.create("/a", b"data") == "/a"
        assert await store.read("/a") == Node(b"data", 0)
        assert await store.read_many(["/b", "/a", "/"]) == [None, Node(b"data", 0), Node(b"", 0)]

    with_store(opener, test)


def test_version_goes_up_by_one_when_the_node_is_set(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/a")
        assert await store.compare_and_set("/a", b"1", 0) == 1
        assert await store.compare_and_set("/a", b"2", None) == 2
        assert await store.read("/a") == Node(b"2", 2)
        await store.delete("/a", 2)
        await store.create("/a")
        assert await store.read("/a") == Node(b"", 0)

    with_store(opener, test)


def test_change_is_refused_when_the_version_is_another(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/a", b"0")
        await store.compare_and_set("/a", b"1", 0)
        assert await refused(StoreErrorKind.BAD_VERSION, store.compare_and_set("/a", b"2", 0)) == "/a"
        await refused(StoreErrorKind.BAD_VERSION, store.delete("/a", 0))
        assert await store.read("/a") == Node(b"1", 1)

    with_store(opener, test)


def test_call_is_refused_when_the_node_or_its_parent_is_missing(opener: Opener) -> None:
    async def test(store: Store) -> None:
        assert await refused(StoreErrorKind.NO_NODE, store.create("/a/b")) == "/a"
        await refused(StoreErrorKind.NO_NODE, store.compare_and_set("/a", b"", None))
        await refused(StoreErrorKind.NO_NODE, store.delete("/a"))
        await refused(StoreErrorKind.NO_NODE, store.children("/a"))

    with_store(opener, test)


def test_create_is_refused_when_the_node_exists(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/a", b"first")
        assert await refused(StoreErrorKind.NODE_EXISTS, store.create("/a", b"second")) == "/a"
        await refused(StoreErrorKind.NODE_EXISTS, store.create("/"))
        assert await store.read("/a") == Node(b"first", 0)

    with_store(opener, test)


def test_delete_is_refused_when_the_node_has_children(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.ensure_path("/a/b")
        await refused(StoreErrorKind.NOT_EMPTY, store.delete("/a"))
        await refused(StoreErrorKind.BAD_PATH, store.delete("/"))
        await store.delete("/a/b")
        await store.delete("/a")
        assert await store.children("/") == []

    with_store(opener, test)


def test_children_are_names_in_order_when_listed(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.ensure_path("/a/c/deep")
        await store.create("/a/b")
        await store.create("/ab")
        assert await store.children("/a") == ["b", "c"]
        assert await store.children("/") == ["a", "ab"]
        assert await store.children("/a/b") == []

    with_store(opener, test)


def test_ensure_path_leaves_what_is_there_when_repeated(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/a", b"kept")
        await store.ensure_path("/a/b/c")
        await store.ensure_path("/a/b/c")
        await store.ensure_path("/")
        assert await store.read("/a") == Node(b"kept", 0)
        assert await store.read("/a/b/c") == Node(b"", 0)

    with_store(opener, test)


MALFORMED = [
    "",
    "a",
    "/a/",
    "//",
    "/a//b",
    "/.",
    "/a/..",
    "/a\0b",
    "/a\nb",
    "/a\ue000",
    "/a\U0001f600",
    "/" + "x" * 2000,
]


@pytest.mark.parametrize("path", MALFORMED)
def test_path_is_refused_when_malformed(opener: Opener, path: str) -> None:
    async def test(store: Store) -> None:
        await refused(StoreErrorKind.BAD_PATH, store.create(path))
        await refused(StoreErrorKind.BAD_PATH, store.read(path))
        await refused(StoreErrorKind.BAD_PATH, store.children(path))
        await refused(StoreErrorKind.BAD_PATH, store.ensure_path(path))
        with pytest.raises(StoreError):
            store.watch(path, lambda _: None)

    with_store(opener, test)


def test_value_is_refused_when_zookeeper_would_not_take_it(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/a", b"x" * MAX_STORE_VALUE_BYTES)
        large = b"x" * (MAX_STORE_VALUE_BYTES + 1)
        await refused(StoreErrorKind.TOO_LARGE, store.create("/b", large))
        await refused(StoreErrorKind.TOO_LARGE, store.compare_and_set("/a", large, None))

    with_store(opener, test)


def test_sequence_numbers_go_up_when_earlier_siblings_are_gone(opener: Opener) -> None:
    async def numbers() -> None:
        store = await opener()
        await store.create("/queue")
        first = await store.create("/queue/n-", sequence=True)
        second = await store.create("/queue/n-", b"data", sequence=True)
        assert first.startswith("/queue/n-")
        assert len(first) == len("/queue/n-") + 10
        assert second > first
        await store.delete(second)
        await store.close()
        again = await opener()
        third = await again.create("/queue/n-", sequence=True, ephemeral=True)
        assert third > second
        await again.close()

    asyncio.run(numbers())


def test_ephemeral_nodes_go_when_their_session_ends(opener: Opener) -> None:
    async def sessions() -> None:
        store = await opener()
        await store.create("/lasting")
        await store.create("/lasting/passing", ephemeral=True)
        await refused(StoreErrorKind.NO_CHILDREN_FOR_EPHEMERALS, store.create("/lasting/passing/child"))
        await store.close()
        again = await opener()
        assert await again.children("/lasting") == []
        await again.close()

    asyncio.run(sessions())


def test_every_call_is_refused_when_the_store_is_closed(opener: Opener) -> None:
    async def closed() -> None:
        store = await opener()
        await store.close()
        await store.close()
        await refused(StoreErrorKind.CLOSED, store.read("/a"))
        await refused(StoreErrorKind.CLOSED, store.create("/a"))
        await refused(StoreErrorKind.CLOSED, store.children("/"))

    asyncio.run(closed())


def test_transaction_does_everything_when_all_operations_fit(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.ensure_path("/old")
        results = await store.transaction(
            [
                Check("/old", 0),
                Create("/a"),
                Create("/a/b", b"x"),
                Create("/a/s-", sequence=True),
                CompareAndSet("/a/b", b"y", 0),
                Delete("/old", 0),
            ]
        )
        sequence = results[3]
        assert isinstance(sequence, str)
        assert sequence.startswith("/a/s-")
        assert list(results) == [None, "/a", "/a/b", sequence, 1, None]
        assert await store.read("/a/b") == Node(b"y", 1)
        assert await store.children("/") == ["a"]
        assert await store.transaction([]) == []

    with_store(opener, test)


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (Check("/kept", 7), StoreErrorKind.BAD_VERSION),
        (Check("/missing", 0), StoreErrorKind.NO_NODE),
        (Create("/kept"), StoreErrorKind.NODE_EXISTS),
        (Create("/missing/x"), StoreErrorKind.NO_NODE),
        (Delete("/fresh"), StoreErrorKind.NOT_EMPTY),
        (CompareAndSet("/kept", b"", 0), StoreErrorKind.BAD_VERSION),
        (Create("bad"), StoreErrorKind.BAD_PATH),
    ],
)
def test_transaction_does_nothing_when_one_operation_fails(
    opener: Opener, last: Operation, kind: StoreErrorKind
) -> None:
    async def test(store: Store) -> None:
        await store.create("/kept", b"before")
        await store.create("/gone")
        told: list[str] = []
        store.watch("/", told.append)
        operations: list[Operation] = [
            Create("/fresh"),
            Create("/fresh/s-", sequence=True),
            CompareAndSet("/kept", b"after", 0),
            CompareAndSet("/kept", b"later", 1),
            Delete("/gone"),
            last,
        ]
        assert await refused(kind, store.transaction(operations)) in (last.path, "/missing")
        assert await store.read("/kept") == Node(b"before", 0)
        assert await store.children("/") == ["gone", "kept"]
        assert told == []

    with_store(opener, test)


class Told:
    """What a watcher was told. Several changes may come as one call, and a call may come a little later."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, path: str) -> None:
        self.paths.append(path)
        self._news.set()

    async def after(self, change: Awaitable[object]) -> None:
        self._news.clear()
        await change
        await self._news.wait()


def test_watcher_is_told_when_node_or_children_change(opener: Opener) -> None:
    async def test(store: Store) -> None:
        told = Told()
        stop = store.watch("/a", told)
        await told.after(store.create("/a"))
        await told.after(store.create("/a/b"))
        await told.after(store.compare_and_set("/a", b"x", None))
        await told.after(store.delete("/a/b"))
        await told.after(store.delete("/a"))
        await told.after(store.ensure_path("/a/b"))
        assert set(told.paths) == {"/a"}
        stop()
        stop()
        count = len(told.paths)
        await store.compare_and_set("/a", b"y", None)
        await store.sync("/a")
        assert len(told.paths) == count

    with_store(opener, test)


def test_every_watcher_of_a_path_is_told_when_there_are_several(opener: Opener) -> None:
    async def test(store: Store) -> None:
        first, second, other = Told(), Told(), Told()
        stop = store.watch("/a", first)
        store.watch("/a", second)
        store.watch("/b", other)
        await second.after(first.after(store.create("/a")))
        stop()
        await second.after(store.compare_and_set("/a", b"x", None))
        await second.after(store.delete("/a"))
        assert len(first.paths) == 1
        assert other.paths == []

    with_store(opener, test)


def test_ephemeral_node_names_its_session_when_read(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/lasting")
        await store.create("/passing", b"data", ephemeral=True)
        assert await store.read_many(["/lasting", "/passing"]) == [Node(b"", 0), Node(b"data", 0, store.session_id)]

    with_store(opener, test)


def test_session_has_a_name_of_its_own_when_opened_again(opener: Opener) -> None:
    async def sessions() -> None:
        names = []
        for _ in range(3):
            store = await opener()
            names.append(store.session_id)
            await store.close()
        assert len(set(names)) == 3

    asyncio.run(sessions())


def test_session_has_ended_and_nobody_is_told_when_the_store_is_closed(opener: Opener) -> None:
    async def closed() -> None:
        store = await opener()
        told: list[SessionState] = []
        store.on_session(told.append)
        states = [store.session_state]
        await store.close()
        states.append(store.session_state)
        assert states == [SessionState.CONNECTED, SessionState.ENDED]
        assert told == []

    asyncio.run(closed())


def test_last_contact_is_when_the_question_was_asked_when_the_store_has_answered(opener: Opener) -> None:
    async def test(store: Store) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await store.sync("/")
        assert before <= store.last_contact <= loop.time()

    with_store(opener, test)


def test_transaction_is_refused_as_a_whole_when_it_is_over_the_limit(opener: Opener) -> None:
    async def test(store: Store) -> None:
        limit = store.transaction_limit
        await store.create("/a")
        value = b"x" * 100_000
        heavy: list[Operation] = [Create(f"/a/heavy-{number}", value) for number in range(6)]
        many: list[Operation] = [Create(f"/a/{number}") for number in range(2_001)]
        if limit is None:
            await store.transaction(heavy)
            await store.transaction(many)
            return
        assert transaction_size(heavy) > limit.size
        await refused(StoreErrorKind.TOO_LARGE, store.transaction(heavy))
        await refused(StoreErrorKind.TOO_LARGE, store.transaction(many))
        assert await store.children("/a") == []
        await store.transaction(heavy[:5])
        await store.transaction(many[: limit.operation_count])
        assert len(await store.children("/a")) == 5 + limit.operation_count

    with_store(opener, test)


def test_calls_are_atomic_when_many_run_at_once(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/counter", b"0")

        async def try_to_increment() -> bool:
            node = await store.read("/counter")
            assert node is not None
            try:
                await store.compare_and_set("/counter", str(int(node.data) + 1).encode(), node.version)
            except StoreError as error:
                if error.kind is not StoreErrorKind.BAD_VERSION:
                    raise
                return False
            return True

        async def increment() -> None:
            while not await try_to_increment():
                pass

        await asyncio.gather(*(increment() for _ in range(10)))
        assert await store.read("/counter") == Node(b"10", 10)

    with_store(opener, test)


def test_both_calls_succeed_when_two_ensure_the_same_path_at_once(opener: Opener) -> None:
    async def test(store: Store) -> None:
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        await asyncio.gather(store.ensure_path("/x/y"), store.ensure_path("/x/y"))
        assert await store.read("/x/y") == Node(b"", 0)
        await writing

    with_store(opener, test)


def test_ensured_path_is_there_when_a_transaction_that_had_made_it_fails_meanwhile(opener: Opener) -> None:
    async def test(store: Store) -> None:
        writing = asyncio.ensure_future(store.transaction([*MANY, Check("/nothing", 0)]))
        await asyncio.sleep(0)
        await store.ensure_path("/a")
        await refused(StoreErrorKind.NO_NODE, writing)
        assert await store.read("/a") == Node(b"", 0)

    with_store(opener, test)


def test_nodes_are_read_as_of_one_moment_when_a_transaction_waits_behind_the_reading(opener: Opener) -> None:
    async def test(store: Store) -> None:
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        both = store.transaction([Create("/x"), Create("/y")])
        read, _ = await asyncio.gather(store.read_many(["/x", "/y"]), both)
        assert read == [None, None]
        await writing

    with_store(opener, test)


def test_create_is_refused_and_leaves_nothing_when_the_store_is_closed_before_its_turn(opener: Opener) -> None:
    async def sessions() -> None:
        store = await opener()
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        await refused(StoreErrorKind.CLOSED, store.create("/passing", ephemeral=True))
        await asyncio.gather(writing, closing)
        again = await opener()
        assert await again.children("/") == ["a"]
        await again.close()

    asyncio.run(sessions())
