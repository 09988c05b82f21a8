"""The guides with those of their blocks that need Spark or several brokers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.guides.blocks import GUIDES, Kind, read_blocks
from tests.guides.running import run_guide
from tests.servers import give_up_without

RUN = [path for path in GUIDES if any(Kind.INTEROP in block.reasons for block in read_blocks(path.read_text()))]


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_every_block_of_a_guide_succeeds_when_there_is_all_that_it_needs(path: Path, tmp_path: Path) -> None:
    if shutil.which("java") is None:
        give_up_without("java", "broker")
    run_guide(path.read_text(), tmp_path, is_interop=True)
