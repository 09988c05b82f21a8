"""Keeps the tail short: fails when a file, a function, a class or a folder grows too large, or a bad habit appears.

Run by `make check`. `EXCEPTIONS` is a ratchet: a place may exceed its limit with its present number and a reason. The
number may only fall, and there are at most twenty entries.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.testing.history_cycles import find_cycles

REPOSITORY = Path(__file__).resolve().parents[1]
CODE_DIRECTORIES = ("src", "tests", "tools", "bench", "examples")
# Generated from Kafka's definitions, and checked against its generator instead.
GENERATED = "src/penstock/protocol/messages/"

FILE_LINES, FUNCTION_LINES, CLASS_LINES = 500, 60, 300
METHODS, PARAMETERS = 25, 7
FOLDER_MODULES = 20
PROSE_COLUMNS = 120
MAX_EXCEPTIONS = 20


class Allowed(NamedTuple):
    number: int
    reason: str


STATE_MACHINE = "hypothesis takes each rule and invariant of a state machine as a method"

# "path::name measure" -> what it has now, and why it may.
EXCEPTIONS: dict[str, Allowed] = {
    "src/penstock/local_cluster/cluster.py::Cluster.__init__ parameters": Allowed(8, "what a user chooses, by name"),
    "src/penstock/cli/commands/broker.py::start parameters": Allowed(8, "the options of the command, by name"),
    "src/penstock/pipelines/jobs/ip_fraud.py::ip_fraud parameters": Allowed(
        10, "a job's parameters are its options, by name"
    ),
    "src/penstock/protocol/records.py::build_batch parameters": Allowed(10, "the fields of a batch header, by name"),
    "src/penstock/server/net/connection.py::Connection lines": Allowed(
        318, "asyncio's callbacks and their state are one machine; an object between them costs each request"
    ),
    "src/penstock/streams/app.py::Streams.stream parameters": Allowed(8, "what is said of a topic, by name"),
    "tests/clients/raw/wire.py::build_batch parameters": Allowed(13, "the fields of a batch header, by name"),
    "tests/properties/test_consumer_groups.py::ConsumerGroupMachine methods": Allowed(29, STATE_MACHINE),
    "tests/properties/test_transactions.py::TransactionMachine methods": Allowed(29, STATE_MACHINE),
    "tests/properties/test_transactions.py::TransactionMachine lines": Allowed(307, STATE_MACHINE),
}

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


def find_excess(source: Source) -> Iterator[Finding]:
    for measure in measure_source(source):
        exception = EXCEPTIONS.get(measure.place)
        limit = measure.limit if exception is None else exception.number
        if measure.number > limit:
            text = f"{measure.name} has {measure.number} {measure.unit}, the limit is {limit}"
            yield Finding(source.path, measure.line, text)


class Measure(NamedTuple):
    path: str
    line: int
    name: str
    unit: str
    number: int
    limit: int

    @property
    def place(self) -> str:
        return f"{self.path}::{self.name} {self.unit}"


def measure_source(source: Source) -> Iterator[Measure]:
    yield Measure(source.path, 1, "the file", "lines", source.text.count("\n"), FILE_LINES)
    for name, node in _definitions(source.tree):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
            yield Measure(source.path, node.lineno, name, "lines", lines, CLASS_LINES)
            yield Measure(source.path, node.lineno, name, "methods", methods, METHODS)
        else:
            yield Measure(source.path, node.lineno, name, "lines", lines, FUNCTION_LINES)
            yield Measure(source.path, node.lineno, name, "parameters", _count_parameters(node), PARAMETERS)


def _count_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    named = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"]))


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


def find_empty_names(source: Source) -> Iterator[Finding]:
    module = Path(source.path).stem
    if EMPTY_NAMES & set(module.split("_")):
        yield Finding(source.path, 1, f"the module name {module} says nothing: name what it does")
    for name, node in _definitions(source.tree):
        words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
        if isinstance(node, ast.ClassDef) and EMPTY_NAMES & {word.lower() for word in words}:
            yield Finding(source.path, node.lineno, f"the class name {name} says nothing: name what it is")


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    find_excess,
    find_mocks,
    find_monkeypatching,
    find_sleeps_in_unit_tests,
    find_bad_comments,
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
    """The ratchet's other direction: an exception whose place has shrunk or gone must follow it."""
    numbers = {measure.place: measure.number for source in sources for measure in measure_source(source)}
    findings = [
        Finding(place.partition("::")[0], 1, f"{place}: {allowed.number} allowed, {numbers.get(place, 0)} there now")
        for place, allowed in EXCEPTIONS.items()
        if numbers.get(place, 0) < allowed.number
    ]
    if len(EXCEPTIONS) > MAX_EXCEPTIONS:
        text = f"{len(EXCEPTIONS)} exceptions, at most {MAX_EXCEPTIONS} are allowed"
        findings.append(Finding("tools/tidy.py", 1, text))
    return findings


def find_full_folders(sources: list[Source]) -> list[Finding]:
    folders = Counter(
        source.path.rpartition("/")[0]
        for source in sources
        if source.path.startswith("src/") and not source.path.endswith("/__init__.py")
    )
    return [
        Finding(folder, 1, f"{count} modules in one folder, the limit is {FOLDER_MODULES}")
        for folder, count in folders.items()
        if count > FOLDER_MODULES
    ]


def find_long_prose(path: str, text: str) -> Iterator[Finding]:
    """Lines of a page that a person reads. Tables, code, headings and generated parts have their own width."""
    is_exempt = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "<!-- map", "<!-- end")):
            is_exempt = not is_exempt
        elif not is_exempt and len(line) > PROSE_COLUMNS and not line.lstrip().startswith(("|", "#")):
            yield Finding(path, number, f"{len(line)} columns, the limit is {PROSE_COLUMNS}")


def read_pages(root: Path = REPOSITORY) -> Iterator[tuple[str, str]]:
    """The pages that people write; those of docs/reference are generated."""
    for file in sorted((*root.glob("*.md"), *root.glob("docs/**/*.md"))):
        path = file.relative_to(root).as_posix()
        if not path.startswith("docs/reference/"):
            yield path, file.read_text()


def find_import_cycles(sources: list[Source]) -> list[Finding]:
    """Modules of the package that import each other in a circle, at the top or inside of functions."""
    modules = {_module_name(source.path): source for source in sources if source.path.startswith("src/")}
    numbers = {name: number for number, name in enumerate(modules)}
    names = list(modules)
    edges = {
        numbers[name]: {numbers[each] for each in _imported(source.tree) if each in numbers and each != name}
        for name, source in modules.items()
    }
    return [
        Finding(modules[names[cycle[0]]].path, 1, f"import cycle: {', '.join(names[each] for each in cycle)}")
        for cycle in find_cycles(edges)
    ]


def _module_name(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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


def main() -> int:
    sources = list(read_sources())
    findings = [finding for source in sources for finding in check(source)]
    findings += find_slack(sources) + find_full_folders(sources) + find_import_cycles(sources)
    findings += [finding for path, text in read_pages() for finding in find_long_prose(path, text)]
    for finding in findings:
        print(finding)
    print(f"tidy: {len(sources)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
