"""What every `tools/generate_*.py` does with its page: write it, or with `--check` say that it is stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def write_or_check(page: Path, text: str) -> int:
    """The exit code. The script that was started is the one to run again."""
    parser = argparse.ArgumentParser(description=f"Writes {page.name}.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the page is stale")
    if not parser.parse_args().check:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{page.name} is stale: run tools/{Path(sys.argv[0]).name}", file=sys.stderr)
    return 1
