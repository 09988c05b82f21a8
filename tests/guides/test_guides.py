"""What README.md and docs/guides tell a reader to do works. What runs where: see `blocks.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guides.blocks import GUIDES, read_blocks
from tests.guides.judging import problems_of
from tests.guides.running import RUNS, run_guide, runs_here

# README.md needs Spark: tests/pipelines/test_readme.py.
RUN = [
    path
    for path in GUIDES
    if path.name != "README.md"
    and any(block.language in RUNS and runs_here(block, False) for block in read_blocks(path.read_text()))
]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_every_block_of_a_page_is_run_or_checked_or_says_why_not(path: Path) -> None:
    assert not problems_of(path.read_text())


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_every_block_of_a_guide_succeeds_when_they_are_run_in_their_order(path: Path, tmp_path: Path) -> None:
    run_guide(path.read_text(), tmp_path)
