"""The builds that a cluster is updated from and to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from proof.cluster.builds import LEVEL_AFTER, make_build_after, run_by


def run(build: Path, code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, **run_by(build)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_build_after_knows_the_newest_level_and_has_no_build_before_it_when_it_is_copied_without_its_history(
    tmp_path: Path,
) -> None:
    build = make_build_after(tmp_path / "after")
    levels = "from penstock.cluster.levels import SUPPORTED; print(SUPPORTED.highest)"
    assert run(build, levels) == f"{LEVEL_AFTER}\n"
    unpack = (
        "import sys; from pathlib import Path; from proof.cluster.builds import unpack_build_before; "
        "print(unpack_build_before(Path(sys.argv[1])))"
    )
    assert run(build, unpack, str(tmp_path / "before")) == "None\n"
