"""Keeps the tail short: fails when a file, a function or a class grows too long, or when a known bad habit appears.

Run by `make check`. `GROWN` is a ratchet: a place that is over its limit may be listed with its present number, which
may then only fall. It is meant to be empty.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CODE_DIRECTORIES = ("src", "tests", "tools", "bench", "examples")
# Generated from Kafka's definitions, and checked against its generator instead.
GENERATED = "src/penstock/protocol/messages/"

FILE_LINES, FUNCTION_LINES, CLASS_LINES = 500, 60, 350

# "path" or "path::name" -> the number of lines it has now.
GROWN: dict[str, int] = {}

# "path::function" where everything is caught on purpose: the request loop, the supervisor of chores, a thread that
# hands errors on.
BROAD_EXCEPT_PLACES = frozenset(
    {
        "src/penstock/broker/dispatch.py::Dispatcher.handle",
        "src/penstock/broker/dispatch.py::Dispatcher._wait",
        "src/penstock/broker/upkeep/housekeeping.py::Housekeeping._repeat",
        "src/penstock/client/bounded_call.py::call_within.run",
    }
)

EMPTY_NAMES = frozenset({"manager", "helper", "helpers", "util", "utils", "impl"})


@dataclass(frozen=True, slots=True)
class Source:
    path: str  # relative to the repository, with forward slashes
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        return cls(path, text, ast.parse(text))


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


TYPE_IGNORE_WITHOUT_CODE = re.compile(r"#\s*type:\s*ignore(?!\[)")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def find_long_files(source: Source) -> Iterator[Finding]:
    count = source.text.count("\n")
    if count > _limit(source.path, FILE_LINES):
        yield Finding(source.path, 1, f"{count} lines, the limit is {_limit(source.path, FILE_LINES)}")


def find_long_definitions(source: Source) -> Iterator[Finding]:
    for name, node in _definitions(source.tree):
        is_class = isinstance(node, ast.ClassDef)
        limit = _limit(f"{source.path}::{name}", CLASS_LINES if is_class else FUNCTION_LINES)
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > limit:
            yield Finding(source.path, node.lineno, f"{name} has {count} lines, the limit is {limit}")


def find_mocks(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        if any(name.startswith("unittest.mock") for name in names):
            assert isinstance(node, ast.Import | ast.ImportFrom)
            yield Finding(source.path, node.lineno, "imports unittest.mock: write a fake in penstock.testing")


def find_monkeypatching(source: Source) -> Iterator[Finding]:
    if "/cli/" in source.path:
        return
    for _, node in _definitions(source.tree):
        if isinstance(node, ast.ClassDef):
            continue
        if any(argument.arg == "monkeypatch" for argument in (*node.args.args, *node.args.kwonlyargs)):
            yield Finding(source.path, node.lineno, f"{node.name} monkeypatches: inject the collaborator instead")


def find_sleeps_in_unit_tests(source: Source) -> Iterator[Finding]:
    if not source.path.startswith("tests/unit/"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep":
            yield Finding(source.path, node.lineno, "a unit test sleeps: pass the time in instead")


def find_bad_comments(source: Source) -> Iterator[Finding]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if TYPE_IGNORE_WITHOUT_CODE.search(token.string):
            yield Finding(source.path, token.start[0], "`type: ignore` without an error code")
        if UNFINISHED.search(token.string):
            yield Finding(source.path, token.start[0], "unfinished work: finish it or open an issue")


def find_broad_excepts(source: Source) -> Iterator[Finding]:
    for name, node in [("", source.tree), *_definitions(source.tree)]:
        place = f"{source.path}::{name}"
        if isinstance(node, ast.ClassDef) or place in BROAD_EXCEPT_PLACES:
            continue
        for handler in _own_handlers(node):
            if _catches_everything(handler) and not _raises_again(handler):
                yield Finding(source.path, handler.lineno, f"broad except in {name or 'the module'}")


def find_empty_names(source: Source) -> Iterator[Finding]:
    module = Path(source.path).stem
    if EMPTY_NAMES & set(module.split("_")):
        yield Finding(source.path, 1, f"the module name {module} says nothing: name what it does")
    for name, node in _definitions(source.tree):
        words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
        if isinstance(node, ast.ClassDef) and EMPTY_NAMES & {word.lower() for word in words}:
            yield Finding(source.path, node.lineno, f"the class name {name} says nothing: name what it is")


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    find_long_files,
    find_long_definitions,
    find_mocks,
    find_monkeypatching,
    find_sleeps_in_unit_tests,
    find_bad_comments,
    find_broad_excepts,
    find_empty_names,
)


def check(source: Source) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(source)]


def read_sources(root: Path = REPOSITORY) -> Iterator[Source]:
    for directory in CODE_DIRECTORIES:
        for file in sorted((root / directory).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            if not path.startswith(GENERATED):
                yield Source.parse(path, file.read_text())


def find_slack(sources: list[Source]) -> list[Finding]:
    """The ratchet's other direction: an entry of GROWN whose place has shrunk or gone must follow it."""
    sizes: dict[str, int] = {}
    for source in sources:
        sizes[source.path] = source.text.count("\n")
        for name, node in _definitions(source.tree):
            sizes[f"{source.path}::{name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
    return [
        Finding(
            place.partition("::")[0],
            1,
            f"GROWN allows {allowed} lines for {place}, which now has {sizes.get(place, 0)}",
        )
        for place, allowed in GROWN.items()
        if sizes.get(place, 0) < allowed
    ]


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(tree: ast.Module) -> list[tuple[str, Definition]]:
    """Every function and class with its dotted name."""
    found: list[tuple[str, Definition]] = []
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, parent = pending.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, Definition):
                found.append((f"{prefix}{node.name}", node))
                pending.append((f"{prefix}{node.name}.", node))
            else:
                pending.append((prefix, node))
    return found


def _own_handlers(scope: ast.AST) -> Iterator[ast.ExceptHandler]:
    """The except clauses of a function or module, without those of the functions and classes inside it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.ExceptHandler):
            yield node
        if not isinstance(node, Definition):
            yield from _own_handlers(node)


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"} for kind in types)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _limit(place: str, usual: int) -> int:
    return GROWN.get(place, usual)


def main() -> int:
    sources = list(read_sources())
    findings = [finding for source in sources for finding in check(source)] + find_slack(sources)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(sources)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
