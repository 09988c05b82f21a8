"""What every store promises of nodes and transactions."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Delete,
    Node,
    Operation,
    Store,
    StoreError,
    StoreErrorKind,
    transaction_size,
)
from penstock.core.limits import MAX_STORE_VALUE_BYTES
from tests.integration.stores import Opener, refused, with_store


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


def test_largest_value_is_taken_when_it_is_alone_with_its_fence(opener: Opener) -> None:
    async def test(store: Store) -> None:
        value = b"x" * MAX_STORE_VALUE_BYTES
        fence = Check("/fence", 0)
        await store.create("/fence")
        await store.create("/set")
        await store.transaction([fence, Create(f"/{'c' * 999}", value)])
        await store.transaction([fence, CompareAndSet("/set", value)])
        assert await store.read("/set") == Node(value, 1)
        too_large = CompareAndSet("/set", value + b"x")
        assert await refused(StoreErrorKind.TOO_LARGE, store.transaction([fence, too_large])) == "/set"

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
