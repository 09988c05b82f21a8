"""Processes that rounds start, and where they find the rounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proof.cluster.builds import run_by
from proof.search_path import REPOSITORY, search_path


@pytest.mark.parametrize("build", [None, Path("/somewhere/else")])
def test_a_process_finds_the_rounds_when_it_runs_in_another_directory(build: Path | None, tmp_path: Path) -> None:
    environment = {**os.environ, **(run_by(build) if build else {"PYTHONPATH": search_path()})}
    code = "import proof.search_path; print(proof.search_path.REPOSITORY)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(REPOSITORY)


def test_a_build_comes_before_everything_else_when_a_broker_runs_it() -> None:
    assert search_path(Path("/somewhere/else")).split(os.pathsep)[0] == "/somewhere/else"
