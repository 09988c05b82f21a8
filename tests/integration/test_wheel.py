"""What users install: the wheel, as `pip` would unpack it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.testing.history import Operation, Outcome, Send, write_history

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = {"penstock", "pyspark_penstock"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files in a directory."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, timeout=200)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "installed")
    return directory / "installed"


def test_the_rounds_stay_behind_when_the_wheel_is_built(installed: Path) -> None:
    found = {path.name for path in installed.iterdir()}
    assert found > PACKAGES
    assert [name for name in found - PACKAGES if not name.endswith(".dist-info")] == []
    assert [path for path in installed.rglob("*") if path.stem == "proof"] == []


def test_a_history_is_judged_when_nothing_but_the_wheel_is_there(installed: Path, tmp_path: Path) -> None:
    write_history(tmp_path / "history", [Operation(1, Outcome.OK, (Send("t", 0, 1, 5), Send("t", 0, 2, 4)))])
    done = subprocess.run(
        [sys.executable, "-m", "penstock.testing.history", "--check", "history"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("int-nonmonotonic-send: ")
