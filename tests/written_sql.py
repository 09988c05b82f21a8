"""Every statement of SQL that stands in our guides, examples, benchmarks and tests. What is put into a text at run time
is `x`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from penstock.pipelines.sql.statements import split_statements
from tests.guides.blocks import quoted, read_blocks, without_blocks

_ROOT = Path(__file__).parents[1]
_CODE = (
    "bench",
    "examples",
    "src/penstock/cli/commands/sql",
    "src/penstock/pipelines",
    "src/penstock/streams",
    "tests/interop",
    "tests/pipelines",
    "tests/unit/cli",
    "tests/unit/pipelines",
    "tests/unit/streams",
)
_WORDS = "SELECT|WITH|FROM|VALUES|TABLE|INSERT INTO|CREATE (?:OR REPLACE )?(?:TEMP(?:ORARY)? )?VIEW|EXPLAIN"
_BEGINS = re.compile(rf"[\s(]*(?:{_WORDS}|{_WORDS.lower()})\s")
_INLINE = re.compile(r"`([^`\n]+)`")


def statements_of_guides() -> list[str]:
    return _statements(
        text for path in (_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md"))) for text in _in_guide(path)
    )


def statements_of_code() -> dict[str, list[str]]:
    """By the file's name. Some are broken on purpose."""
    paths = [path for name in _CODE for path in sorted((_ROOT / name).rglob("*.py"))]
    found = {path.name: _statements(_in_code(path.read_text("utf-8"))) for path in paths}
    return {name: statements for name, statements in found.items() if statements}


def _statements(texts: Iterator[str]) -> list[str]:
    found = (each for text in texts if _BEGINS.match(text) for each in split_statements(text))
    return list(dict.fromkeys(found))


def _in_guide(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    for block in read_blocks(text):
        if block.language == "python":
            yield from _in_code(block.text)
        elif block.language == "sql":
            yield block.text
        else:
            yield from quoted(block.text)
    yield from _INLINE.findall(without_blocks(text))


def _in_code(text: str) -> Iterator[str]:
    if "SELECT " in text or "select " in text:
        try:
            yield from _texts(ast.parse(text))
        except SyntaxError:  # an excerpt in a guide
            yield from quoted(text)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)
