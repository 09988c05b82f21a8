"""Replicas between the data directories of a real broker: asked for over the wire, seen in the directories."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.clients.support import eventually

# Moves wait for the checkpoint after their copy.
QUICK_MOVES = {"replica.high.watermark.checkpoint.interval.ms": "100"}


def ask_to_move(servers: str, topic: str, target: Path, partitions: Iterable[int] = (0,)) -> list[ErrorCode]:
    host, _, port = servers.rpartition(":")
    named = AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(target), topics=[named])])
    with BlockingConnection(host, int(port), client_id="moving") as connection:
        answer = connection.request(request, 2)
    return [ErrorCode(each.error_code) for result in answer.results for each in result.partitions]


def move(servers: str, topic: str, target: Path, partition: int = 0) -> None:
    """Returns when the replica is there and nowhere else."""
    assert ask_to_move(servers, topic, target, [partition]) == [ErrorCode.NONE]
    await_place(topic, target, partition)


def await_place(topic: str, target: Path, partition: int = 0) -> None:
    eventually(lambda: (target / f"{topic}-{partition}").is_dir(), f"the move of {topic}-{partition} to {target}")
