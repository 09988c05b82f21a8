"""Shows what a package's own unit tests do not notice: changes its code in one place at a time, and runs the tests.

`make mutate PACKAGE=replication` changes each comparison, condition, sum and number of `src/penstock/replication`, one
at a time, and runs `tests/unit/replication` against the changed module. It prints each change that all tests pass, and
fails when the tests notice less than 90 % of the changes. Some changes are the same as the original for any caller, so
the limit is below 100 %.

Only for packages without processes, sockets and clocks, whose tests take seconds: each change runs all of them, until
the first one fails. A change whose tests do not end within a minute counts as noticed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
NOTICED_AT_LEAST = 0.9
# A test waits for an event that does not come any more, or a loop has no end.
TIMEOUT_S = 60

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
# Types change nothing at run time.
_TYPES = ("annotation", "returns")


class Change(NamedTuple):
    module: str
    number: int  # among the changes of the module
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"src/{self.module.replace('.', '/')}.py:{self.line}: {self.before}  ->  {self.after}"


class _Turn(NamedTuple):
    """One change of a tree, in place."""

    line: int
    find_shown: Callable[[], ast.AST]  # the expression, before the change and after it
    make: Callable[[], None]


def find_changes(module: str, text: str) -> list[Change]:
    count = sum(1 for _ in _turns(ast.parse(text)))
    return [_describe(module, text, number) for number in range(count)]


def _describe(module: str, text: str, number: int) -> Change:
    turn = _turn(ast.parse(text), number)
    before = ast.unparse(turn.find_shown())
    turn.make()
    return Change(module, number, turn.line, before, ast.unparse(turn.find_shown()))


def change_tree(text: str, number: int) -> ast.Module:
    tree = ast.parse(text)
    _turn(tree, number).make()
    return ast.fix_missing_locations(tree)


def _turn(tree: ast.AST, number: int) -> _Turn:
    return list(_turns(tree))[number]


def _turns(parent: ast.AST) -> Iterator[_Turn]:
    """Always in the same order."""
    for name, value in ast.iter_fields(parent):
        if name in _TYPES:
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield from _turns_of(node, parent)
                yield from _turns(node)


def _turns_of(node: ast.AST, parent: ast.AST) -> Iterator[_Turn]:
    line = getattr(node, "lineno", 0)
    shown = parent if isinstance(parent, ast.expr | ast.stmt) and not hasattr(parent, "body") else node

    def turn(change: Callable[[], None]) -> _Turn:
        return _Turn(line, lambda: shown, change)

    match node:
        case ast.Compare():
            for index in range(len(node.ops)):
                yield turn(lambda index=index: _turn_comparison(node, index))  # type: ignore[misc]
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield turn(lambda: setattr(node, "op", other))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield turn(lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), operand)))
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _OPERATORS:
            yield turn(lambda: setattr(node, "op", _OPERATORS[type(operator)]()))
        case ast.Constant(value=bool() as value):
            yield turn(lambda: setattr(node, "value", not value))
        case ast.Constant(value=int() as value):
            yield turn(lambda: setattr(node, "value", value + 1))
        case ast.If() | ast.IfExp() | ast.While() if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            negated = ast.UnaryOp(ast.Not(), node.test)
            yield _Turn(line, lambda: node.test, lambda: setattr(node, "test", negated))


def _turn_comparison(node: ast.Compare, index: int) -> None:
    node.ops[index] = _COMPARISONS[type(node.ops[index])]()


# ------------------------------------------------------------------------------------------------- running the tests


class _ChangedLoader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed tree."""

    def __init__(self, module: str, path: Path, number: int) -> None:
        self._module = module
        self._path = path
        self._code = compile(change_tree(path.read_text(), number), str(path), "exec", dont_inherit=True)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)  # noqa: S102  # this tree's own code


def is_noticed(change: Change | None, tests: Path) -> bool:
    """Runs the tests in this process, which has not loaded the module before. None: without any change."""
    if change is not None:
        path = REPOSITORY / "src" / f"{change.module.replace('.', '/')}.py"
        sys.meta_path.insert(0, _ChangedLoader(change.module, path, change.number))
    signal.alarm(TIMEOUT_S)  # ends this process
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        # With its own loader for assertions pytest would load the module as it is.
        arguments = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-W", "ignore", "--tb=no", str(tests)]
        return pytest.main(arguments) != pytest.ExitCode.OK


def _load_plugins() -> None:
    """Loads pytest's plugins before the processes fork: that takes as long as the tests of a package. Not our own
    plugin: it loads the package.
    """
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        if not plugin.value.startswith("penstock"):
            plugin.load()


def _run_apart(change: Change | None, tests: Path) -> bool:
    """The same in a process of its own."""
    child = os.fork()
    if not child:
        has_noticed = True
        try:
            has_noticed = is_noticed(change, tests)
        finally:
            os._exit(1 if has_noticed else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def _try(task: tuple[Change, Path]) -> tuple[Change, bool]:
    return task[0], _run_apart(*task)


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY / "src").with_suffix("").parts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="which changes of a package its unit tests do not notice")
    parser.add_argument("package", help="below src/penstock, for example replication")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    folder, tests = REPOSITORY / "src" / "penstock" / options.package, REPOSITORY / "tests" / "unit" / options.package
    paths = sorted(folder.rglob("*.py"))
    changes = [change for path in paths for change in find_changes(_module_name(path), path.read_text())]
    if not changes or not tests.is_dir():
        print(f"nothing to change in {folder}, or no tests in {tests}")
        return 2
    _load_plugins()
    if _run_apart(None, tests):
        print(f"{tests} fails without any change")
        return 2
    missed = 0
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for change, has_noticed in pool.imap(_try, [(change, tests) for change in changes]):
            if not has_noticed:
                missed += 1
                print(change, flush=True)
    share = 1 - missed / len(changes)
    print(f"{len(changes)} changes, {missed} not noticed: {share:.1%} noticed")
    return 0 if share >= NOTICED_AT_LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
