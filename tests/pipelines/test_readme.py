"""The README from top to bottom, as the guides are run, with what needs Spark."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.guides.blocks import ROOT
from tests.guides.running import run_guide
from tests.servers import give_up_without

# What a reader sees of each section that has something to show, in this order.
SHOWN = (
    r"^hello$",
    r"^orders +[0-9] +1 +1 +0",
    r"^1 passed",
    r'^\{"id":7,"country":"NZ"\}$',
    r'"offset":0',
    r"NZ +\S* +1",
    r"^access-log +0 +1 +1 +0",
    r"^/pay$",
    r'"country":"NZ"',
    r'"count":1',
)


def test_every_block_of_the_readme_succeeds_when_they_are_run_in_their_order(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        give_up_without("java", "broker")
    text = run_guide((ROOT / "README.md").read_text(), tmp_path)
    rest = text
    for pattern in SHOWN:
        found = re.search(pattern, rest, re.MULTILINE)
        assert found, f"no {pattern!r} after what came before it:\n{text}"
        rest = rest[found.end() :]
    for bad in ("ERROR", "Error"):
        assert bad not in text, text
