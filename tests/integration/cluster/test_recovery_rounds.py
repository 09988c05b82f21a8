"""Times to recover; see proof.recovery.rounds for what runs and what is measured."""

from __future__ import annotations

from pathlib import Path

from proof.frame import Task
from proof.recovery.rounds import run


def test_every_partition_is_written_to_again_when_a_leader_is_killed(tmp_path: Path) -> None:
    report = run(Task(seed=2026, count=2, scratch=tmp_path, say=print, options={"case": ["kill-leader"]}))
    (measured,) = report.cases
    assert report.is_sound, str(report)
    assert len(measured.tries) == 2
    assert all(each.client_s and each.broker_s for each in measured.tries)
    assert "kill-leader" in str(report)
    assert "median" in str(report)
