from __future__ import annotations

from pathlib import Path

import pytest

from demo import Wishes, parse_arguments
from demo_run import Traffic
from demo_show import prepare_directory, run


def test_choices_are_taken_from_the_command_line_when_given(tmp_path: Path) -> None:
    wishes = parse_arguments(["--duration", "5", "--rate", "0", "--directory", str(tmp_path)])
    assert wishes == Wishes(tmp_path, None, duration_s=5, rate=0, seed=1)


def test_a_negative_duration_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--duration", "-1"])
    assert "0 or more" in capsys.readouterr().err


def test_an_earlier_demo_is_cleared_away_when_another_starts(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    prepare_directory(directory)
    (directory / "old").touch()
    prepare_directory(directory)
    assert not (directory / "old").exists()


def test_a_directory_of_somebody_else_is_left_alone_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(SystemExit, match="not from a demo"):
        prepare_directory(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_a_demo_that_cannot_begin_says_so_as_every_command_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"
    assert run(tmp_path / "demo", missing, Traffic()) == 1
    said = capsys.readouterr().err
    assert said == f"Error: the ranges cannot be read: [Errno 2] No such file or directory: '{missing}'\n"
