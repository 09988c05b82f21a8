from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cluster.store.interface import Create, Node, StoreError, StoreErrorKind
from penstock.cluster.store.sqlite import SCHEMA_VERSION, SqliteStore

WRITER = """
import asyncio, sys
from pathlib import Path
from penstock.cluster.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    await store.ensure_path("/log")
    await store.create("/session", ephemeral=True)
    number = 0
    while True:
        await store.create(f"/log/{number}", str(number).encode())
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def open_error(path: Path) -> StoreError:
    with pytest.raises(StoreError) as error:
        asyncio.run(SqliteStore.open(path))
    assert str(path) in str(error.value)
    return error.value


def test_acknowledged_writes_are_there_when_the_process_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = 0
    for line in process.stdout:
        last = int(line)
        if last >= 50:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()

    async def check() -> None:
        store = await SqliteStore.open(path)
        assert await store.read_many([f"/log/{number}" for number in range(last + 1)]) == [
            Node(str(number).encode(), 0) for number in range(last + 1)
        ]
        assert await store.read("/session") is None
        await store.close()

    asyncio.run(check())


def test_second_opener_is_refused_when_the_store_is_in_use(tmp_path: Path) -> None:
    async def twice() -> None:
        store = await SqliteStore.open(tmp_path / "metadata.db")
        with pytest.raises(StoreError) as error:
            await SqliteStore.open(tmp_path / "metadata.db")
        assert error.value.kind is StoreErrorKind.IN_USE
        await store.create("/still-works")
        await store.close()
        await (await SqliteStore.open(tmp_path / "metadata.db")).close()

    asyncio.run(twice())


def test_error_says_what_to_do_when_the_file_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(b"this is not a database" * 100)
    error = open_error(path)
    assert error.kind is StoreErrorKind.CORRUPT
    assert "restore it from a backup" in str(error)


def test_damage_is_reported_when_pages_of_the_file_are_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"

    async def fill() -> None:
        store = await SqliteStore.open(path)
        await store.transaction([Create(f"/{number}", b"x" * 500) for number in range(200)])
        await store.close()

    asyncio.run(fill())
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)

    async def read() -> None:
        store = await SqliteStore.open(path)
        try:
            await store.read_many([f"/{number}" for number in range(200)])
        finally:
            await store.close()

    with pytest.raises(StoreError) as error:
        asyncio.run(read())
    assert error.value.kind is StoreErrorKind.CORRUPT


def test_foreign_database_is_left_alone_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    error = open_error(path)
    assert (error.kind, "not a Penstock metadata store" in str(error)) == (StoreErrorKind.CORRUPT, True)


def test_store_is_refused_when_a_later_version_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"

    async def create() -> None:
        await (await SqliteStore.open(path)).close()

    asyncio.run(create())
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    assert f"schema version is {SCHEMA_VERSION + 1}" in str(open_error(path))


def test_store_cannot_be_opened_when_its_directory_is_missing(tmp_path: Path) -> None:
    assert open_error(tmp_path / "missing" / "metadata.db").kind is StoreErrorKind.NOT_WRITABLE


def test_sqlite_is_not_imported_when_only_the_module_is() -> None:
    code = "import sys, penstock.cluster.store.sqlite; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_less_durable_store_keeps_its_nodes_when_closed_properly(tmp_path: Path) -> None:
    async def reopen() -> None:
        store = await SqliteStore.open(tmp_path / "metadata.db", durable=False)
        await store.create("/a", b"x")
        await store.close()
        again = await SqliteStore.open(tmp_path / "metadata.db", durable=False)
        assert await again.read("/a") == Node(b"x", 0)
        await again.close()

    asyncio.run(reopen())


def test_files_are_for_their_owner_alone_when_the_store_makes_them(tmp_path: Path) -> None:
    """Everybody on the machine could read the users' keys."""

    async def look() -> None:
        store = await SqliteStore.open(tmp_path / "store.db")
        try:
            await store.create("/a", b"1")
            modes.update(entry.stat().st_mode & 0o777 for entry in os.scandir(tmp_path))
        finally:
            await store.close()

    modes: set[int] = set()
    asyncio.run(look())
    assert modes == {0o600}
