"""Packages whose names are imported late: a reader, a type checker and the interpreter find the same names."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
PACKAGES = ("penstock", "penstock.admin", "penstock.client.connection", "penstock.pipelines.sql", "penstock.streams")


def path_of(package: str) -> Path:
    return SOURCES.joinpath(*package.split("."), "__init__.py")


def imported_for_types(tree: ast.Module) -> dict[str, str]:
    """The module of each name below `if TYPE_CHECKING`."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def imported_late(tree: ast.Module) -> dict[str, str]:
    """The table that `lazy_names` is given."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_names"]
    assert len(calls) == 1
    table = calls[0].args[1]
    if isinstance(table, ast.Name):
        assigned = (
            node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == table.id
        )
        table = next(assigned).value
    found = ast.literal_eval(table)
    assert isinstance(found, dict)
    return found


def test_every_package_that_imports_names_late_is_looked_at() -> None:
    texts = {path: path.read_text() for path in SOURCES.rglob("__init__.py")}
    assert {path for path, text in texts.items() if "__getattr__" in text} == {path_of(package) for package in PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_checker_and_interpreter_find_a_name_in_the_same_module(package: str) -> None:
    tree = ast.parse(path_of(package).read_text())
    names = imported_late(tree)
    assert names == {name: module for name, module in imported_for_types(tree).items() if name in names}
    module = importlib.import_module(package)
    assert set(names) <= set(module.__all__) <= set(dir(module))
    assert {name: getattr(module, name) for name in module.__all__}.keys() == set(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_error_when_it_is_used(package: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{package}' has no attribute 'no_such_name'$"):
        importlib.import_module(package).no_such_name  # noqa: B018


def test_a_type_checker_knows_which_names_are_there(tmp_path: Path) -> None:
    """In three of these packages mypy took any name for one that is there."""
    program = tmp_path / "program.py"
    known = {package: importlib.import_module(package).__all__ for package in PACKAGES}
    program.write_text(
        "\n".join(f"from {each} import {', '.join([*known[each], 'no_such_name'])}" for each in PACKAGES)
    )
    options = ("--config-file=", "--follow-imports=skip", "--explicit-package-bases", "--no-error-summary")
    command = [sys.executable, "-m", "mypy", *options, f"--cache-dir={tmp_path / 'cache'}", str(program)]
    paths = [str(path_of(package)) for package in PACKAGES]
    done = subprocess.run([*command, *paths], cwd=SOURCES, capture_output=True, text=True, check=False)
    told = [line.partition("error: ")[2] for line in done.stdout.splitlines() if line.startswith(str(program))]
    wanted = [f'Module "{package}" has no attribute "no_such_name"  [attr-defined]' for package in PACKAGES]
    assert told == wanted, done.stdout + done.stderr
