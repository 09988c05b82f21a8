from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.broker.replicas.followed_partition import Followed, FollowerFetchOutcome
from penstock.protocol.messages.fetch import PartitionData
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.broker.harness import lone_partition
from tests.unit.log.support import NOW, batch


@pytest.mark.parametrize(
    ("error", "answer"), [(errno.EMFILE, FollowerFetchOutcome.LATER), (errno.EIO, FollowerFetchOutcome.LOST)]
)
def test_follower_tries_again_when_only_no_file_can_be_opened(
    tmp_path: Path, error: int, answer: FollowerFetchOutcome
) -> None:
    files = FaultyFiles()
    followed = Followed(lone_partition(tmp_path / "orders-0", files), leader_epoch=1)
    files.fail(Fault.on("open", error=error))
    data = PartitionData(partition_index=0, high_watermark=0, records=batch("a"))
    assert followed.take(data, NOW) is answer
    files.heal()
    assert (followed.take(data, NOW) is FollowerFetchOutcome.TAKEN) == (answer is FollowerFetchOutcome.LATER)
    followed.partition.log.close(clean=False)
