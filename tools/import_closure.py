"""The modules that a module imports, those that they import, and so on: all that has to be read and loaded for it.

Imports inside functions count, and so do imports for types alone. Packages do not count: their `__init__` says what the
package is for, and the public names in the first one load nothing before they are used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def find_closure(root: Path, module: str) -> set[str]:
    """The names of the modules below `root`, the module's own among them."""
    found, pending = {module}, [module]
    while pending:
        new = set(_imported_modules(root, pending.pop())) - found
        found |= new
        pending += new
    return found


def _imported_modules(root: Path, module: str) -> Iterator[str]:
    tree = ast.parse(_file(root, module).read_text())
    names = (name for node in ast.walk(tree) for name in imported_names(node))
    return (name for name in names if _file(root, name).is_file())


def imported_names(node: ast.AST) -> Iterator[str]:
    """Of modules, and of what may be modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(root: Path, module: str) -> Path:
    return root.joinpath(*module.split(".")).with_suffix(".py")
