"""What clients feel of a move; see proof.moving.rounds for what runs and what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.frame import Task
from proof.moving.rounds import run


@pytest.mark.soak
def test_a_move_ends_and_no_client_sees_an_error_when_every_partition_goes_to_a_new_broker(tmp_path: Path) -> None:
    options = {"partitions": 100, "bytes": 50_000, "records": 100.0, "rate": 500_000}
    report = run(Task(seed=2026, count=10, scratch=tmp_path, say=print, options=options))
    print(report)
    assert report.is_sound, str(report)
