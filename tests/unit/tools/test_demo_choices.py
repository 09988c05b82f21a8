from __future__ import annotations

from pathlib import Path

import pytest

from demo import parse_arguments, prepare_directory
from demo_run import Traffic


def test_choices_are_taken_from_the_command_line_when_given(tmp_path: Path) -> None:
    directory, ranges, traffic = parse_arguments(["--duration", "5", "--rate", "0", "--directory", str(tmp_path)])
    assert (directory, ranges, traffic) == (tmp_path, None, Traffic(duration_s=5, rate=0))


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
