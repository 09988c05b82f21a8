"""Builds of Penstock, for a cluster that is updated from one of them to the last.

A build before is the code of a pinned commit, which is as different from this one as a release is: it has its own
codecs, its own controller, its own files. The commits are part of the history of every whole clone, and of no shallow
clone or source archive. There is one for each level of the metadata below the newest, so there is something to raise.

The build after is this tree.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import penstock
from penstock.cluster.levels import SUPPORTED
from proof.search_path import search_path

_PACKAGE = Path(penstock.__file__).parent
# By the highest level that the build knows.
_PINNED = {
    1: "b4c6f90420235413429f00d9844550ebe7c8add1",
    2: "9a3480b744620f05d0d8efaae9a364f274f9edae",
}
LEVELS_BEFORE = tuple(_PINNED)
_LEVELS = "SUPPORTED = LevelRange(FIRST_LEVEL, SNAPSHOT_LEVEL)"
_FEWER_LEVELS = "SUPPORTED = LevelRange(FIRST_LEVEL, {level})"
LEVEL_AFTER = SUPPORTED.highest


def make_build_after(directory: Path) -> Path:
    """The directory, to be put into PYTHONPATH."""
    shutil.copytree(_PACKAGE, directory / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def make_build_up_to(level: int, directory: Path) -> Path:
    """This tree as one that knows no later level, where there is no older build."""
    make_build_after(directory)
    levels = directory / "penstock" / "cluster" / "levels.py"
    text = levels.read_text(encoding="utf-8")
    assert _LEVELS in text, "the levels have changed: pin a later commit, and take the newest level away here"
    levels.write_text(text.replace(_LEVELS, _FEWER_LEVELS.format(level=level)), encoding="utf-8")
    return directory


def unpack_build_before(directory: Path, level: int = 1) -> Path | None:
    """What is to be put into PYTHONPATH, or nothing where this tree has no history that reaches back so far."""
    root = _PACKAGE.parents[1]
    try:
        archive = subprocess.run(
            ["git", "-C", str(root), "archive", _PINNED[level], "src/penstock"],  # noqa: S607 - whichever git there is
            capture_output=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    return directory / "src"


def run_by(build: Path) -> Mapping[str, str]:
    """The environment of a broker that runs this build."""
    return {"PYTHONPATH": search_path(build)}
