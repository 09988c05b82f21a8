"""Two builds of Penstock, for a cluster that is updated from one to the other.

The build before is the code of a pinned commit, which is as different from this one as a release is: it has its own
codecs, its own controller, its own files. The commit is part of the history of every whole clone. Where the history is
not there (a shallow clone, a source archive), this tree itself takes its place: the levels still differ, and the test
still shows that brokers of two levels live together.

The build after is this tree, with one level more than it knows, so that there is something to raise.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[3]
_PINNED = "b4c6f90420235413429f00d9844550ebe7c8add1"
_LEVELS = "SUPPORTED = LevelRange(FIRST_LEVEL, SECURITY_LEVEL)"
_FEWER_LEVELS = "SUPPORTED = LevelRange(FIRST_LEVEL, FIRST_LEVEL)"


class Builds(NamedTuple):
    """The PYTHONPATH of each."""

    before: Path
    after: Path


def make_builds(directory: Path) -> Builds:
    before = _unpack(directory / "before")
    if before is None:
        before = _copy(directory / "before")
        levels = before / "penstock" / "cluster" / "levels.py"
        text = levels.read_text()
        assert _LEVELS in text, "the levels have changed: take one away here as well"
        levels.write_text(text.replace(_LEVELS, _FEWER_LEVELS))
    return Builds(before, _copy(directory / "after"))


def _copy(target: Path) -> Path:
    shutil.copytree(_ROOT / "src" / "penstock", target / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
    return target


def _unpack(target: Path) -> Path | None:
    """The pinned commit, or nothing where it is not there."""
    try:
        archive = subprocess.run(
            ["git", "-C", str(_ROOT), "archive", _PINNED, "src/penstock"],  # whichever git there is
            capture_output=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(target, filter="data")
    return target / "src"
