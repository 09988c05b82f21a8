"""The files of a partition's replicas against each other.

All replicas hold the same bytes, batch for batch: followers copy what the leader wrote, leader epochs included. Where
one segment ends and the next begins may differ, and so the files of a log are compared in one piece. The epochs' own
file may lack epochs in which nothing was written; what two replicas both have must be the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.log.formats import names
from penstock.protocol.batch import iterate_batches

_HEADER_LINES = 2


def compare_replicas(directories: Sequence[Path], *, are_closed: bool) -> list[str]:
    """`directories` of one partition, one of each broker. Empty when they hold the same. The epochs' file is written
    late: it is compared where the brokers were stopped.
    """
    logs = {directory: _read_log(directory) for directory in directories}
    first = directories[0]
    problems = [
        f"{first} and {other} differ at byte {_first_difference(logs[first], logs[other])} "
        f"of {len(logs[first])} and {len(logs[other])}"
        for other in directories[1:]
        if logs[first] != logs[other]
    ]
    if not are_closed:
        return problems
    epochs = {directory: _read_epochs(directory) for directory in directories}
    for other in directories[1:]:
        shared = epochs[first].keys() & epochs[other].keys()
        problems += [
            f"epoch {epoch} begins at {epochs[first][epoch]} in {first} and at {epochs[other][epoch]} in {other}"
            for epoch in sorted(shared)
            if epochs[first][epoch] != epochs[other][epoch]
        ]
    return problems


def read_batches(directory: Path) -> Iterator[bytes]:
    """All that a replica holds. Nobody writes any more."""
    content = _read_log(directory)
    for at, header in iterate_batches(content):
        yield content[at : at + header.size]


def _read_log(directory: Path) -> bytes:
    # A segment may be renamed or removed while it is looked at: then the comparison is made again.
    with contextlib.suppress(FileNotFoundError):
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    return b""


def _read_epochs(directory: Path) -> dict[int, int]:
    try:
        lines = (directory / names.LEADER_EPOCHS).read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return {}
    return {int(epoch): int(start) for epoch, start in (line.split() for line in lines[_HEADER_LINES:])}


def _first_difference(one: bytes, other: bytes) -> int:
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return min(len(one), len(other))


def find_directory(log_dirs: Sequence[Path], name: str) -> Path:
    """Of a partition, in one of a broker's directories; where none has it, in the first."""
    return next((found for directory in log_dirs if (found := directory / name).is_dir()), log_dirs[0] / name)
