"""Where processes that rounds start find this package, which is installed nowhere."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def search_path(*first: Path) -> str:
    """PYTHONPATH of such a process: these folders, those that this process was given, and the one of this package."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, first), *([given] if given else []), str(REPOSITORY)])
