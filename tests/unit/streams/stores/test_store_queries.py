"""Reads on the loop: only as long as they hold up nobody."""

from __future__ import annotations

import sqlite3

from penstock.streams.stores.store_queries import ReadsAtOnce


class Disk:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.reads = 0

    def read(self, store: str) -> tuple[str, int]:
        self.now_s += self.takes_s
        self.reads += 1
        return store, self.reads


def test_threads_read_for_a_while_when_the_disk_has_let_the_loop_wait() -> None:
    disk = Disk()
    at_once = ReadsAtOnce(lambda: disk.now_s)
    assert at_once.read(disk.read, "counts") == ("counts", 1)
    disk.takes_s = 0.1
    assert at_once.read(disk.read, "counts") == ("counts", 2)
    assert at_once.read(disk.read, "counts") is None
    assert disk.reads == 2
    disk.now_s, disk.takes_s = disk.now_s + 11, 0.0
    assert at_once.read(disk.read, "counts") == ("counts", 3)
    assert at_once.read(disk.read, "counts") == ("counts", 4)


def test_a_thread_reads_when_the_file_is_locked() -> None:
    def read() -> None:
        raise sqlite3.OperationalError("database is locked")

    assert ReadsAtOnce().read(read) is None
