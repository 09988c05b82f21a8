"""Keeps the tail short: fails when a file, a function, a class or a folder grows too large, or a bad habit appears.

Run by `make check`. `EXCEPTIONS` is a ratchet: a place may exceed its limit with its present number and a reason. The
number may only fall, and there are at most twenty-five entries. `CLOSURES` is another: what a module on a hot path
imports. The table of packages at the end is for information: it fails nothing.
"""

from __future__ import annotations

import ast
import gc
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from import_closure import find_closure, imported_names
from penstock.testing.history_cycles import find_cycles

REPOSITORY = Path(__file__).resolve().parents[1]
CODE_DIRECTORIES = ("src", "proof", "tests", "tools", "bench", "examples")
# Generated from Kafka's definitions, and checked against its generator instead.
GENERATED = "src/penstock/protocol/messages/"
# Where folders stay small and imports without circles.
PACKAGES = ("src/", "proof/")
PRODUCT = "src/penstock/"

FILE_LINES, FUNCTION_LINES, CLASS_LINES = 500, 60, 300
METHODS, PARAMETERS, FIELDS = 25, 7, 15
FOLDER_MODULES = 20
# A search for the name of a class leads to no more files than one looks through.
NAMESAKES = 3
PROSE_COLUMNS = 120
MAX_EXCEPTIONS = 25


class Allowed(NamedTuple):
    number: int
    reason: str


REPORT = "what is counted and written down, by name; nothing works with it"
STATE_MACHINE = "hypothesis takes each rule and invariant of a state machine as a method"

# "path::name measure" -> what it has now, and why it may.
EXCEPTIONS: dict[str, Allowed] = {
    "bench/loads.py::Scale fields": Allowed(17, "how much of each load, by name"),
    "src/penstock/broker/broker.py::Broker fields": Allowed(
        34, "the parts of a broker for those that start, watch and stop it; a handler takes a narrow port of it"
    ),
    "src/penstock/core/config/broker_config.py::BrokerConfig fields": Allowed(
        30, "the sections of the configuration, which are handed on one by one"
    ),
    "src/penstock/core/log_settings.py::LogSettings fields": Allowed(34, "the settings of a topic, by Kafka's names"),
    "src/penstock/local_cluster/cluster.py::Cluster.__init__ parameters": Allowed(8, "what a user chooses, by name"),
    "src/penstock/cli/commands/broker.py::start parameters": Allowed(8, "the options of the command, by name"),
    "src/penstock/log/state/contents.py::LogContents fields": Allowed(
        19, "what the parts that act on one log share; nothing else sees it"
    ),
    "src/penstock/pipelines/runtime/runner.py::Run fields": Allowed(21, "all of one run; it wants to be divided"),
    "src/penstock/pipelines/jobs/ip_fraud.py::ip_fraud parameters": Allowed(
        10, "a job's parameters are its options, by name"
    ),
    "proof/cluster/report.py::ClusterReport fields": Allowed(18, REPORT),
    "proof/crash/check.py::CrashReport fields": Allowed(16, REPORT),
    "src/penstock/runs/records.py::RunRecord fields": Allowed(19, "the fields of a record in a topic, by name"),
    "src/penstock/streams/stores/followed_store.py::Followed fields": Allowed(17, "what is known of one store"),
    "src/penstock/protocol/records.py::build_batch parameters": Allowed(10, "the fields of a batch header, by name"),
    "src/penstock/server/net/connection.py::Connection lines": Allowed(
        318, "asyncio's callbacks and their state are one machine; an object between them costs each request"
    ),
    "src/penstock/streams/app.py::Streams.stream parameters": Allowed(8, "what is said of a topic, by name"),
    "src/penstock/streams/builder/rows.py::Rows.to parameters": Allowed(8, "what is said of a topic, by name"),
    "tests/clients/raw/wire.py::build_batch parameters": Allowed(13, "the fields of a batch header, by name"),
    "tests/properties/test_consumer_groups.py::ConsumerGroupMachine methods": Allowed(29, STATE_MACHINE),
    "tests/properties/test_transactions.py::TransactionMachine methods": Allowed(29, STATE_MACHINE),
    "tests/properties/test_transactions.py::TransactionMachine lines": Allowed(307, STATE_MACHINE),
}

# What pytest has for a test that expects an error.
EXPECTING = frozenset({"raises", "warns", "fail"})

# By module, the number of modules that it imports, with theirs and itself. A hot path takes what it uses by narrow
# ports, so that it can be read and changed without the rest of the broker.
CLOSURES = {"penstock.broker.handlers.produce_single": 130}

# Unit tests that take real time, and why. Others wait for what has to come (tests/waiting.py), or have a time of their
# own (tests/own_time.py).
SLEEPERS = {
    "tests/unit/http/test_hostile_requests.py": "a client on a real socket, whose headers come slowly",
    "tests/unit/proof/test_simulation_loop.py": "sleeps are what is tested, on a loop whose time is simulated",
}

EMPTY_NAMES = frozenset({"manager", "helper", "helpers", "util", "utils", "impl"})
# Gerunds and participles that are the field's own words. Any other module gets a noun (docs/adr/0033-names.md).
# `lowering` is a compiler's step from a plan to what runs it.
FIELD_WORDS = re.compile(
    "auditing|decoding|embedded|encoding|forwarding|framing|housekeeping|lowering|monitoring|parsing|partitioning"
    "|routing|sampling|streaming|testing|throttling"
)


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    path: str  # relative to the repository, with forward slashes
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def definitions(self) -> list[tuple[str, Definition]]:
        """Every function and class with its dotted name."""
        found: list[tuple[str, Definition]] = []
        pending: list[tuple[str, ast.AST]] = [("", self.tree)]
        while pending:
            prefix, parent = pending.pop()
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, Definition):
                    found.append((f"{prefix}{node.name}", node))
                    pending.append((f"{prefix}{node.name}.", node))
                else:
                    pending.append((prefix, node))
        return found

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
    for name, node in source.definitions:
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
            yield Measure(source.path, node.lineno, name, "lines", lines, CLASS_LINES)
            yield Measure(source.path, node.lineno, name, "methods", methods, METHODS)
            yield Measure(source.path, node.lineno, name, "fields", _count_fields(node), FIELDS)
        else:
            yield Measure(source.path, node.lineno, name, "lines", lines, FUNCTION_LINES)
            yield Measure(source.path, node.lineno, name, "parameters", _count_parameters(node), PARAMETERS)


def _count_fields(node: ast.ClassDef) -> int:
    """Of a dataclass; its class variables are no fields. Other classes have none."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return 0
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return sum(not ast.unparse(each.annotation).startswith("ClassVar") for each in fields)


def _count_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    named = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"]))


def find_mocks(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        if any(name.startswith("unittest.mock") for name in names):
            assert isinstance(node, ast.Import | ast.ImportFrom)
            yield Finding(source.path, node.lineno, "imports unittest.mock: write a fake in penstock.testing")


def find_monkeypatching(source: Source) -> Iterator[Finding]:
    if "/cli/" in source.path:
        return
    for _, node in source.definitions:
        if isinstance(node, ast.ClassDef):
            continue
        if any(argument.arg == "monkeypatch" for argument in (*node.args.args, *node.args.kwonlyargs)):
            yield Finding(source.path, node.lineno, f"{node.name} monkeypatches: inject the collaborator instead")


def find_sleeps_in_unit_tests(source: Source) -> Iterator[Finding]:
    if not source.path.startswith("tests/unit/") or source.path in SLEEPERS:
        return
    for line in _sleeps(source):
        yield Finding(source.path, line, "a unit test sleeps: wait for what has to come, or pass the time in")


def _sleeps(source: Source) -> Iterator[int]:
    """The lines. `asyncio.sleep(0)` is no sleep but a turn of the loop."""
    for node in source.nodes:
        match node:
            case ast.Call(ast.Attribute(ast.Name("asyncio"), "sleep"), [ast.Constant(0)]):
                continue
            case ast.Call(ast.Attribute(ast.Name("asyncio" | "time"), "sleep")):
                yield node.lineno


def find_idle_sleepers(sources: list[Source]) -> list[Finding]:
    """The other direction: a test that sleeps no longer leaves `SLEEPERS`."""
    sleeping = {source.path for source in sources if source.path in SLEEPERS and any(_sleeps(source))}
    awake = SLEEPERS.keys() - sleeping
    return [Finding(path, 1, "it does not sleep any more: take it out of SLEEPERS") for path in sorted(awake)]


def find_bad_comments(source: Source) -> Iterator[Finding]:
    if not TYPE_IGNORE_WITHOUT_CODE.search(source.text) and not UNFINISHED.search(source.text):
        return  # to tell comments from strings takes longer than all the rest
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
    for name, node in source.definitions:
        words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
        if isinstance(node, ast.ClassDef) and EMPTY_NAMES & {word.lower() for word in words}:
            yield Finding(source.path, node.lineno, f"the class name {name} says nothing: name what it is")


def find_gerund_modules(source: Source) -> Iterator[Finding]:
    if not source.path.startswith("src/"):
        return
    path = Path(source.path)
    name = path.parent.name if path.stem == "__init__" else path.stem
    if re.fullmatch(r"[a-z]+(ing|ed)", name) and not FIELD_WORDS.fullmatch(name):
        yield Finding(source.path, 1, f"the module name {name} is a bare gerund or participle: name it by a noun")


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    find_excess,
    find_mocks,
    find_monkeypatching,
    find_sleeps_in_unit_tests,
    find_bad_comments,
    find_empty_names,
    find_gerund_modules,
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
        if source.path.startswith(PACKAGES) and not source.path.endswith("/__init__.py")
    )
    return [
        Finding(folder, 1, f"{count} modules in one folder, the limit is {FOLDER_MODULES}")
        for folder, count in folders.items()
        if count > FOLDER_MODULES
    ]


def find_namesakes(sources: list[Source]) -> list[Finding]:
    """Public classes of the product whose name too many modules define, nested classes left out."""
    places: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for source in sources:
        if source.path.startswith(PRODUCT):
            for node in source.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append((source.path, node.lineno))
    return [
        Finding(path, line, _describe_namesakes(name, {each for each, _ in found if each != path}))
        for name, found in places.items()
        if len({path for path, _ in found}) > NAMESAKES
        for path, line in found
    ]


def _describe_namesakes(name: str, others: set[str]) -> str:
    return (
        f"{len(others) + 1} modules have a class {name}, the limit is {NAMESAKES}: let the name say whose it is,"
        f" here or in {', '.join(sorted(others))}"
    )


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
    """Modules of the packages that import each other in a circle, at the top or inside of functions."""
    modules = {_module_name(source.path): source for source in sources if source.path.startswith(PACKAGES)}
    numbers = {name: number for number, name in enumerate(modules)}
    names = list(modules)
    edges = {
        numbers[name]: {numbers[each] for each in _imported(source) if each in numbers and each != name}
        for name, source in modules.items()
    }
    return [
        Finding(modules[names[cycle[0]]].path, 1, f"import cycle: {', '.join(names[each] for each in cycle)}")
        for cycle in find_cycles(edges)
    ]


def _imported(source: Source) -> Iterator[str]:
    return (name for node in source.nodes for name in imported_names(node))


def _module_name(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def find_wide_imports(closures: Mapping[str, int], root: Path = REPOSITORY / "src") -> list[Finding]:
    """Modules of `CLOSURES` that import more than they did, or less: then the number falls with them."""
    counts = {module: len(find_closure(root, module)) for module in closures}
    return [
        Finding(
            f"src/{module.replace('.', '/')}.py", 1, f"imports {counts[module]} modules in all, the limit is {limit}"
        )
        for module, limit in closures.items()
        if counts[module] != limit
    ]


def find_missing_docstrings(sources: list[Source]) -> list[Finding]:
    return [
        Finding(source.path, 1, "the module does not say what it is for: write a docstring")
        for source in sources
        if source.path.startswith("src/") and ast.get_docstring(source.tree) is None
    ]


def find_tests_without_assertions(sources: list[Source]) -> list[Finding]:
    """Tests that neither assert nor expect an error, and call or name no function that does: they pass whatever
    happens. A function is known by its bare name, whoever defines it.
    """
    functions = [
        (source, node)
        for source in sources
        if source.path.startswith("tests/")
        for _, node in source.definitions
        if not isinstance(node, ast.ClassDef)
    ]
    used_by: defaultdict[str, set[str]] = defaultdict(set)
    judging: list[str] = []
    for _, node in functions:
        judges, names = _look_for_assertions(node)
        for name in names:
            used_by[name].add(node.name)
        if judges:
            judging.append(node.name)
    sound: set[str] = set()
    while judging:
        name = judging.pop()
        if name not in sound:
            sound.add(name)
            judging.extend(used_by[name])
    return [
        Finding(source.path, node.lineno, f"{node.name} asserts nothing: it passes whatever happens")
        for source, node in functions
        if node.name.startswith("test_") and node.name not in sound
    ]


def _look_for_assertions(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[bool, set[str]]:
    """Whether the function judges by itself, and the names that it uses."""
    judges, names = False, set[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Assert | ast.Raise):
            judges = True
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return judges or bool(names & EXPECTING), names


def describe_packages(sources: list[Source]) -> str:
    """A table of the product's packages: their modules and lines, generated ones left out."""
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for source in sources:
        if source.path.startswith(PRODUCT):
            package, _, module = source.path.removeprefix(PRODUCT).partition("/")
            lines[package if module else "(none)"].append(source.text.count("\n"))
    rows = [(package, len(counts), sum(counts)) for package, counts in sorted(lines.items())]
    rows.append(("in all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    table = [f"{package:<16}{modules:>8,}{count:>10,}" for package, modules, count in rows]
    return "\n".join([f"{'package':<16}{'modules':>8}{'lines':>10}", *table])


def main() -> int:
    gc.disable()  # looking for circles among millions of nodes takes as long as the rest
    sources = list(read_sources())
    findings = [finding for source in sources for finding in check(source)]
    findings += find_slack(sources) + find_full_folders(sources) + find_import_cycles(sources)
    findings += find_missing_docstrings(sources) + find_tests_without_assertions(sources) + find_idle_sleepers(sources)
    findings += find_wide_imports(CLOSURES) + find_namesakes(sources)
    findings += [finding for path, text in read_pages() for finding in find_long_prose(path, text)]
    for finding in findings:
        print(finding)
    print(describe_packages(sources))
    print(f"tidy: {len(sources)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
