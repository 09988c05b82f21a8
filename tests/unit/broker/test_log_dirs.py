"""DescribeLogDirs in a broker whose disk notes who asks."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from penstock.log.storage.files import DiskSpace, Files, StrPath
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.unit.broker.served import serving

VERSION = 4


class AskedFiles(Files):
    """Knows which threads asked for the size of the disk, and may refuse."""

    def __init__(self, *, is_refused: bool = False) -> None:
        self.threads: list[int] = []
        self._is_refused = is_refused

    def space(self, path: StrPath) -> DiskSpace:
        self.threads.append(threading.get_ident())
        if self._is_refused:
            raise OSError("gone")
        return DiskSpace(1_000, 300)


def test_size_of_the_disk_is_asked_in_a_thread_when_a_client_wants_to_know(tmp_path: Path) -> None:
    files = AskedFiles()

    async def scenario() -> None:
        async with serving(tmp_path, files=files) as served:
            await served.create("orders", 2)
            (directory,) = (await served.ask(DescribeLogDirsRequest(topics=None), VERSION)).results
            assert (directory.error_code, directory.total_bytes, directory.usable_bytes) == (0, 1_000, 300)
            assert [len(topic.partitions) for topic in directory.topics] == [2]

    asyncio.run(scenario())
    assert len(files.threads) == 1
    assert threading.get_ident() not in files.threads


def test_directory_has_an_error_when_its_disk_does_not_tell_its_size(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, files=AskedFiles(is_refused=True)) as served:
            (directory,) = (await served.ask(DescribeLogDirsRequest(topics=None), VERSION)).results
            assert directory.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert directory.log_dir == str(tmp_path)

    asyncio.run(scenario())
