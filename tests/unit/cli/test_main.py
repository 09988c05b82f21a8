from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.app import COMMANDS
from penstock.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_every_group_is_listed_when_help_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in out


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_is_shown_when_asked_of_a_group(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, name, "-h")
    assert code == 0
    assert out.startswith(f"Usage: penstock {name} ")


def test_version_is_printed_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out.startswith("penstock ")


def test_near_miss_is_suggested_when_command_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "topcs", "list")
    assert code == 2
    assert "Did you mean 'topics'?" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "create"],
        ["topics", "create", "t", "--partitions", "0"],
        ["topics", "delete", "t"],
        ["topics", "delete-records", "t", "--yes"],
        ["topics", "list", "--command-config", "/no/such/file"],
        ["consume", "t", "--format", "%q"],
        ["consume", "t", "--from", "middle"],
        ["produce", "t", "--tombstone"],
        ["groups", "describe"],
        ["groups", "reset-offsets", "g", "--topic", "t"],
        ["configs", "describe"],
        ["configs", "alter", "--topic", "t"],
        ["log", "dump", "/no/such/file"],
        ["broker", "start", "--log-level", "loud"],
        ["broker", "start"],
    ],
)
def test_exit_code_is_2_without_traceback_when_usage_is_wrong(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "Error: " in err
    assert "Traceback" not in err


def test_file_is_named_without_an_error_number_when_it_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "cluster", "restore", str(tmp_path), "--zookeeper", "127.0.0.1:1")
    assert (code, err) == (1, f"Error: {tmp_path}: is a directory\n")


def test_exit_code_is_3_when_no_broker_answers(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "topics", "list", "-b", "127.0.0.1:1", "--json")
    assert (code, out) == (3, "")
    assert "no broker answers at 127.0.0.1:1" in err


def test_same_command_runs_when_python_runs_the_package(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "log", "dirs", str(tmp_path)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "There are no partitions.\n")


def test_completion_script_is_printed_when_asked_for() -> None:
    source = Path(__file__).parents[3] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), "_PENSTOCK_COMPLETE": "complete_bash"}
    environment |= {"COMP_WORDS": "penstock topics de", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "penstock"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.split() == ["describe", "delete", "delete-records"]
