"""Writes the file map of docs/architecture.md from the packages themselves; `--check` fails when the map is stale.

A package's line is the first line of its docstring and the names of its modules, so every module is on the map.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from generated_page import write_or_check

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src/penstock"
ROUNDS = REPOSITORY / "proof"
PAGE = REPOSITORY / "docs/architecture.md"
BEGIN, END = "<!-- map: written by tools/generate_map.py -->\n", "<!-- end of map -->\n"
GENERATED = "protocol/messages"
WIDTH = 140
# Some screens for each of the two. A tree that needs more wants fewer modules, or a map of another kind.
MAX_LINES = 300
# As docs/architecture.md draws the layers, from the bottom.
ORDER = (
    *("core", "protocol", "security", "log", "client", "admin", "coordinators", "groups", "transactions", "cluster"),
    *("replication", "runs", "broker", "pipelines", "http", "health", "server", "processes", "securing"),
    *("local_cluster", "testing", "cli"),
)


def render() -> str:
    top = " ".join(sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")))
    lines = [f"- **`penstock`** The public names. *{top}*"]
    packages = [path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]
    lines += [_describe(package, PACKAGE) for package in sorted(packages, key=_position)]
    rounds = sorted(path.parent for path in ROUNDS.rglob("__init__.py"))
    return _wrap(lines) + _wrap(_describe(package, REPOSITORY) for package in rounds)


def _describe(package: Path, root: Path) -> str:
    name = package.relative_to(root).as_posix()
    modules = sorted(path.stem for path in package.glob("*.py") if not path.stem.startswith("__"))
    text = f"{len(modules)} modules, generated" if name == GENERATED else " ".join(modules)
    return f"- **`{name}`** {_purpose(package)}" + (f" *{text}*" if text else "")


def _wrap(lines: Iterable[str]) -> str:
    wrapped = [textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines]
    text = "\n".join(wrapped) + "\n"
    if text.count("\n") > MAX_LINES:
        raise SystemExit(f"a map has {text.count(chr(10))} lines, the limit is {MAX_LINES}")
    return text


def _position(package: Path) -> tuple[int, str]:
    name = package.relative_to(PACKAGE).as_posix()
    top = name.partition("/")[0]
    return ORDER.index(top) if top in ORDER else len(ORDER), name


def _purpose(package: Path) -> str:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    if not docstring:
        raise SystemExit(f"{package} does not say what it is for: give its __init__.py a docstring")
    return " ".join(docstring.partition("\n\n")[0].split())


def place_in_page(map_text: str) -> str:
    """The page with this map between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{map_text}{END}{after}"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, place_in_page(render())))
