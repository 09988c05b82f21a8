"""A process that cannot open a file for now: new and deleted partitions."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.log.support import NOW, SMALL, TOPIC_ID, append, batch
from tests.unit.log.test_log_directories import filled, opened, partition


def test_nothing_is_left_of_a_new_partition_when_the_process_has_no_descriptor(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    directories = opened(tmp_path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(ApiError) as caught:
            directories.create(partition(5), TOPIC_ID, SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert directories.offline == {}
    append(directories.create(partition(5), TOPIC_ID, SMALL), batch("a"))
    directories.close()


def test_deleted_partitions_stay_gone_and_the_directory_online_when_nothing_can_be_opened(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    filled(directories, 2)
    files.fail(Fault.on("sync_directory", error=errno.EMFILE))
    directories.delete([partition(0)], NOW)
    assert directories.offline == {}
    files.heal()
    append(directories.create(partition(0), TOPIC_ID, SMALL), batch("a"))
    directories.close()
