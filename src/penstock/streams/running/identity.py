"""`<checkpoint>/topology.json`: what each query was, so that a changed one is refused and not mixed with an old state.

The partition counts of tables' topics are kept beside it: the latest record of a key is the one with the largest offset
in its partition, and a key moves to another partition when there are more of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.streams.planning.plan import Plan

FILE_NAME = "topology.json"


def check_identity(checkpoint: str, plan: Plan, table_partitions: Mapping[str, int]) -> None:
    """StreamsError with the difference where the checkpoint belongs to another topology; else notes this one."""
    raise NotImplementedError
