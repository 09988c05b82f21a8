"""The one reader of the blocks in our Markdown: README.md and docs/.

A block is what stands between two lines of three backticks. Comments directly above its first line are notes to the
tests, which a reader of the page does not see:

    <!-- not run: REASON -->           no test runs the block
    <!-- run by: tests/.../test_x.py -->   another test reads it here and runs it
    <!-- run in interop: WHAT -->      needs more than one broker, so it runs in `make interop` alone: Spark, a cluster
    <!-- exit code 1: WHY -->          the block's last command ends with this code
    <!-- first: LINES -->              lines in the block's own language that run before it: what a reader has already

A note right below the page's title is about all of its blocks that have none of their own, `first` aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))

_BLOCK = re.compile(
    r"^(?P<notes>(?:^<!--(?:(?!-->).)*-->\n)*)^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_NOTE = re.compile(r"<!--\s*(?P<kind>[a-z ]+?)(?: (?P<code>\d+))?:\s*(?P<words>.*?)\s*-->", re.DOTALL)
_PAGE_NOTE = re.compile(r"\A# [^\n]*\n+(<!-- (?:not run|run by|run in interop):(?:(?!-->).)*-->)\n\n", re.DOTALL)


class Kind(Enum):
    """What a note is about."""

    NOT_RUN = "not run"
    RUN_BY = "run by"
    INTEROP = "run in interop"
    EXIT_CODE = "exit code"
    FIRST = "first"


REASONS = (Kind.NOT_RUN, Kind.RUN_BY, Kind.INTEROP)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of the page, where the block's text begins
    reasons: dict[Kind, str]  # why it does not run in `make test`
    first: str = ""
    exit_code: int = 0

    @property
    def file_name(self) -> str | None:
        """What a block begins with that is a file: `# hello.py`."""
        named = re.match(r"# ([\w-]+\.\w+)\n", self.text)
        return named[1] if named else None


class UnknownNoteError(ValueError):
    """A comment above a block that no kind of note begins."""


def read_blocks(page: str) -> list[Block]:
    title = _PAGE_NOTE.match(page)
    of_page = _read_notes(title[1])[0] if title else {}
    return [_read_block(match, page, of_page) for match in _BLOCK.finditer(page)]


def find_section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _read_block(match: re.Match[str], page: str, of_page: dict[Kind, str]) -> Block:
    notes, code = _read_notes(match["notes"])
    line = page.count("\n", 0, match.start("text")) + 1
    reasons: dict[Kind, str] = {kind: words for kind, words in notes.items() if kind in REASONS}
    return Block(match["language"], match["text"], line, reasons or of_page, notes.get(Kind.FIRST, ""), code)


def _read_notes(text: str) -> tuple[dict[Kind, str], int]:
    found: dict[Kind, str] = {}
    exit_code = 0
    for comment in re.findall(r"<!--.*?-->", text, re.DOTALL):
        note = _NOTE.fullmatch(comment)
        kinds = {kind.value: kind for kind in Kind}
        if not note or note["kind"] not in kinds or not note["words"]:
            raise UnknownNoteError(f"{comment} begins with none of: {', '.join(kinds)}")
        kind = kinds[note["kind"]]
        if (kind is Kind.EXIT_CODE) != (note["code"] is not None):
            raise UnknownNoteError(f"{comment}: a number belongs to an exit code, and to nothing else")
        found[kind] = note["words"]
        exit_code = int(note["code"] or exit_code)
    return found, exit_code


def without_blocks(page: str) -> str:
    return _BLOCK.sub("", page)


def quoted(text: str) -> Iterator[str]:
    """What stands in quotes of a command line."""
    for double, single in re.findall(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'', text):
        yield double or single
