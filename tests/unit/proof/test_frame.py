"""The frame of all rounds: what a command prints, keeps and returns, and that the table names what there is."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from proof.frame import Kind, Option, Task, main
from proof.kinds import KINDS

# This module is itself a kind of rounds: `run` below.
KIND = Kind("trial", __name__, "try the frame", 3, "tries", (Option("--word", "part of the result"),))
TIMED = Kind("timed", __name__, "try the frame", 2.5, "seconds", (Option("--word", "as above"),), is_timed=True)
IN_MEMORY = Kind("memory", __name__, "try the frame", 3, "tries", (Option("--word", "as above"),), is_in_memory=True)
SAVED = Kind("saved", __name__, "try the frame", 3, "tries", (Option("--word", "as above"),), seedless="word")


@dataclass
class TrialReport:
    text: str
    is_sound: bool

    def __str__(self) -> str:
        return self.text


def run(task: Task) -> TrialReport:
    (task.scratch / "made").write_text(str(task.seed))
    task.say(f"in {task.scratch}")
    _ = 1 / task.seed
    return TrialReport(f"trial: {task.count} of seed {task.seed}, {task.options['word']}", task.seed != 13)


def test_seed_progress_and_result_are_printed_when_rounds_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([KIND], ["trial", "--rounds", "5", "--seed", "7", "--word", "x"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert (first, third) == ("seed 7", "trial: 5 of seed 7, x")
    assert " s  in /" in second


def test_exit_code_is_one_and_files_stay_when_a_promise_was_broken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([KIND], ["trial", "--seed", "13"]) == 1
    *_, where, result = capsys.readouterr().out.splitlines()
    assert result == "trial: 3 of seed 13, None"
    assert where.startswith("what was written is kept in ")
    scratch = Path(where.rpartition(" in ")[2])
    assert (scratch / "made").read_text() == "13"
    shutil.rmtree(scratch)


def test_no_files_stay_when_they_are_in_memory_and_the_seed_makes_them_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([IN_MEMORY], ["memory", "--seed", "13"]) == 1
    progress, result = capsys.readouterr().out.splitlines()[1:]
    assert result == "trial: 3 of seed 13, None"
    assert not Path(progress.rpartition(" in ")[2]).exists()


def test_files_stay_when_the_rounds_themselves_fail(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        main([KIND], ["trial", "--seed", "0"])
    scratch = Path(capsys.readouterr().out.splitlines()[-1].rpartition(" in ")[2])
    assert (scratch / "made").exists()
    shutil.rmtree(scratch)


def test_seed_is_chosen_and_printed_when_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = set()
    for _ in range(3):
        main([KIND], ["trial"])
        first, *_, last = capsys.readouterr().out.splitlines()
        assert last == f"trial: 3 of {first}, None"
        seeds.add(first)
    assert len(seeds) == 3


def test_count_is_of_seconds_when_a_kind_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([TIMED], ["timed", "--seed", "1", "--seconds", "0.5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "trial: 0.5 of seed 1, None"


def test_no_seed_is_printed_when_nothing_is_left_to_chance(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([SAVED], ["saved", "--seed", "1", "--word", "x"]) == 0
    assert "seed 1" not in capsys.readouterr().out.splitlines()


def test_files_stay_when_they_are_to_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([KIND], ["trial", "--seed", "7", "--keep", str(tmp_path / "new")])
    assert (tmp_path / "new" / "made").read_text() == "7"
    main([KIND], ["trial", "--seed", "7"])
    scratch = Path(capsys.readouterr().out.splitlines()[-2].rpartition(" in ")[2])
    assert not scratch.exists()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_module_can_run_a_task_when_the_table_names_it(kind: Kind) -> None:
    found = importlib.util.find_spec(kind.module)
    assert found is not None
    assert found.origin is not None
    assert "\ndef run(task: Task) -> " in Path(found.origin).read_text()


def test_every_kind_is_listed_when_help_is_asked_for() -> None:
    command = [sys.executable, "-m", "proof", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert [kind.name for kind in KINDS if f"\n    {kind.name}" not in done.stdout] == []
