from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tidy


def findings(text: str, path: str = "src/penstock/log/storage/segment.py") -> list[str]:
    return [finding.text for finding in tidy.check(tidy.Source.parse(path, text))]


def test_nothing_is_found_when_the_code_is_plain() -> None:
    assert findings("def read() -> bytes:\n    return b''\n") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n" * 501, "the file has 501 lines"),
        ("def read():\n" + "    x = 1\n" * 60, "read has 61 lines"),
        ("class Log:\n" + "    x = 1\n" * 300, "Log has 301 lines"),
        ("class Log:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(26)), "Log has 26 methods"),
        ("def read(a, b, c, d, e, f, g, h): ...\n", "read has 8 parameters"),
        ("class Log:\n    def read(self, a, b, c, d, *, e, f, g, h): ...\n", "Log.read has 8 parameters"),
        ("class Log:\n    async def read(self):\n" + "        x = 1\n" * 60, "Log.read has 61 lines"),
        ("@dataclass(slots=True)\nclass Log:\n" + "".join(f"    x{n}: int\n" for n in range(16)), "Log has 16 fields"),
        ("import unittest.mock\n", "unittest.mock"),
        ("from unittest import mock\n", "unittest.mock"),
        ("from unittest.mock import Mock\n", "unittest.mock"),
        ("def test_it(monkeypatch): ...\n", "monkeypatches"),
        ("x = y  # type: ignore\n", "without an error code"),
        ("x = 1  # TODO later\n", "unfinished"),
        ("# FIXME\n", "unfinished"),
        ("class OffsetManager: ...\n", "OffsetManager says nothing"),
        ("class LogUtils: ...\n", "LogUtils says nothing"),
        ("class StoreImpl: ...\n", "StoreImpl says nothing"),
    ],
)
def test_habit_is_found_when_the_code_has_it(text: str, expected: str) -> None:
    assert [finding for finding in findings(text) if expected in finding] != []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n" * 500,
        "def read():\n" + "    x = 1\n" * 59,
        "x = y  # type: ignore[attr-defined]\n",
        "x = '# TODO'\n",
        "class Log:\n    def read(self, a, b, c, d, *, e, f, g): ...\n",
        "class Log:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(25)),
        "@dataclass\nclass Log:\n    y: ClassVar[int] = 1\n" + "".join(f"    x{n}: int\n" for n in range(15)),
        "class Log(Protocol):\n" + "".join(f"    x{n}: int\n" for n in range(16)),
        "class Utility: ...\n",
        "class Implementation: ...\n",
    ],
)
def test_nothing_is_found_when_the_code_only_resembles_a_habit(text: str) -> None:
    assert findings(text) == []


def test_module_name_is_found_when_it_is_a_gerund_that_the_field_does_not_use() -> None:
    for path in ("src/penstock/log/reading.py", "src/penstock/log/reading/__init__.py", "src/penstock/observed.py"):
        (finding,) = findings("", path)
        assert "gerund" in finding
    for path in ("src/penstock/http/routing.py", "src/penstock/log/log_reading.py", "tests/unit/reading.py"):
        assert findings("", path) == []


def test_module_name_is_found_when_it_says_nothing() -> None:
    assert findings("x = 1\n", "src/penstock/log/file_utils.py") != []


@pytest.mark.parametrize(
    "text", ["time.sleep(1)\n", "async def f():\n    await asyncio.sleep(0.01)\n", "w = asyncio.sleep(2 * PAUSE_S)\n"]
)
def test_sleep_is_found_when_a_unit_test_sleeps(text: str) -> None:
    assert len(findings(text, "tests/unit/test_segment.py")) == 1
    assert findings(text, "tests/integration/test_crash.py") == []
    assert [findings(text, sleeper) for sleeper in tidy.SLEEPERS] == [[]] * len(tidy.SLEEPERS)


def test_nothing_is_found_when_a_unit_test_gives_others_their_turn() -> None:
    assert findings("async def f():\n    await asyncio.sleep(0)\n", "tests/unit/test_segment.py") == []


def test_sleeper_is_found_when_it_sleeps_no_longer() -> None:
    awake = [tidy.Source.parse(path, "time.sleep(1)\n") for path in tidy.SLEEPERS]
    assert tidy.find_idle_sleepers(awake) == []
    assert [each.path for each in tidy.find_idle_sleepers(awake[1:])] == [awake[0].path]
    asleep = [tidy.Source.parse(path, "await_it()\n") for path in tidy.SLEEPERS]
    assert len(tidy.find_idle_sleepers(asleep)) == len(tidy.SLEEPERS)


def test_monkeypatch_is_allowed_when_the_command_line_is_tested() -> None:
    assert findings("def test_it(monkeypatch): ...\n", "tests/unit/cli/test_topics.py") == []


def parsed(**texts: str) -> list[tidy.Source]:
    return [tidy.Source.parse(f"src/penstock/log/{name}.py", text) for name, text in texts.items()]


def test_folder_is_found_when_it_has_more_than_twenty_modules() -> None:
    modules = {f"m{number}": "" for number in range(20)}
    assert tidy.find_full_folders(parsed(**modules, __init__="")) == []
    (finding,) = tidy.find_full_folders(parsed(**modules, segment=""))
    assert "21 modules" in finding.text


def test_cycle_is_found_when_modules_import_each_other() -> None:
    a, b = "from penstock.log import b\n", "def f():\n    from penstock.log.a import read\n"
    (finding,) = tidy.find_import_cycles(parsed(a=a, b=b, c="import penstock.log.a\n"))
    assert "penstock.log.a, penstock.log.b" in finding.text
    assert tidy.find_import_cycles(parsed(a=a, b="")) == []


def test_class_is_found_when_more_than_three_modules_have_its_name() -> None:
    modules = dict.fromkeys("abc", "class Node: ...\n")
    assert tidy.find_namesakes(parsed(**modules)) == []
    found = tidy.find_namesakes(parsed(**modules, d="import x\nclass Node: ...\n"))
    assert [(each.path[-4:], each.line) for each in found] == [("a.py", 1), ("b.py", 1), ("c.py", 1), ("d.py", 2)]
    assert "4 modules have a class Node" in found[3].text
    assert found[3].text.endswith("in " + ", ".join(f"src/penstock/log/{name}.py" for name in "abc"))


def test_no_class_is_found_when_only_private_nested_or_foreign_ones_share_its_name() -> None:
    modules = dict.fromkeys("abc", "class Node: ...\n")
    others = {"d": "class _Node: ...\n", "e": "class Tree:\n    class Node: ...\n", "f": "class Node: ...\n" * 2}
    assert tidy.find_namesakes(parsed(**modules, d=others["d"], e=others["e"])) == []
    assert tidy.find_namesakes([*parsed(**modules), tidy.Source.parse("tests/d.py", "class Node: ...\n")]) == []
    assert tidy.find_namesakes(parsed(a=modules["a"], b=modules["b"], f=others["f"])) == []


def test_packages_are_counted_when_the_tree_is_described() -> None:
    paths = ["penstock/log/a.py", "penstock/log/storage/b.py", "penstock/embedded.py", "other/c.py"]
    rows = tidy.describe_packages([tidy.Source.parse(f"src/{path}", "x = 1\n" * 600) for path in paths]).splitlines()
    assert [row.split() for row in rows] == [
        ["package", "modules", "lines"],
        ["(none)", "1", "600"],
        ["log", "2", "1,200"],
        ["in", "all", "3", "1,800"],
    ]


def test_module_is_found_when_it_has_no_docstring() -> None:
    sources = [tidy.Source.parse(path, text) for path, text in [("src/a.py", "x = 1\n"), ("src/b.py", '"""B."""\n')]]
    sources.append(tidy.Source.parse("tests/c.py", "x = 1\n"))
    assert [finding.path for finding in tidy.find_missing_docstrings(sources)] == ["src/a.py"]


def test_a_test_is_found_when_neither_it_nor_what_it_calls_asserts() -> None:
    helpers = "def check(x):\n    assert x\ndef look(x):\n    return check(x)\ndef wait(x): ...\n"
    tests = [
        "def test_a():\n    look(1)\n",
        "def test_b():\n    wait(1)\n",
        "def test_c():\n    with pytest.raises(OSError):\n        wait(1)\n",
        "async def test_d():\n    run(rig.look)\n",
        "def test_e():\n    assert 1\n",
    ]
    texts = {"tests/support.py": helpers, "tests/unit/test_it.py": "".join(tests)}
    found = tidy.find_tests_without_assertions([tidy.Source.parse(*each) for each in texts.items()])
    assert [str(each) for each in found] == [
        "tests/unit/test_it.py:3: test_b asserts nothing: it passes whatever happens"
    ]


def _write_modules(root: Path) -> None:
    """One imports another, inside a function another, and for types alone another; the last is imported by none."""
    (root / "package").mkdir()
    texts = {
        "hot": "from package import cold\ndef late():\n    from package.lazy import name\n",
        "cold": "import os\nif TYPE_CHECKING:\n    import package.typed\n",
        "lazy": "name = 1\n",
        "typed": "",
        "other": "from package import hot\n",
        "__init__": "from package import other\n",
    }
    for name, text in texts.items():
        (root / "package" / f"{name}.py").write_text(text)


def test_wide_imports_are_found_when_a_module_loads_more_than_its_limit(tmp_path: Path) -> None:
    _write_modules(tmp_path)
    (finding,) = tidy.find_wide_imports({"package.hot": 3}, tmp_path)
    assert finding.text == "imports 4 modules in all, the limit is 3"


def test_wide_imports_are_found_when_the_limit_could_fall(tmp_path: Path) -> None:
    _write_modules(tmp_path)
    assert tidy.find_wide_imports({"package.hot": 4}, tmp_path) == []
    assert tidy.find_wide_imports({"package.hot": 5}, tmp_path) != []


def test_long_line_is_found_when_a_page_has_one_outside_of_tables_and_code() -> None:
    long = "word " * 30
    assert [each.line for each in tidy.find_long_prose("README.md", f"short\n{long}\n")] == [2]
    assert list(tidy.find_long_prose("README.md", f"| {long} |\n```\n{long}\n```\n# {long}\n")) == []


def test_exception_is_found_when_its_place_has_shrunk_below_it() -> None:
    place = "tests/properties/test_transactions.py"
    shrunk = [tidy.Source.parse(place, "class TransactionMachine: ...\n")]
    assert any("TransactionMachine methods: 29 allowed, 0 there now" in each.text for each in tidy.find_slack(shrunk))


@pytest.mark.parametrize(
    ("lock", "with_extras"),
    [
        ("dev.lock", ["spark", "cluster", "zookeeper", "databases", "dev"]),
        ("runtime.lock", []),
        # built on the spot, by a compiler that not everybody has: `make interop` installs it where it can
        ("gssapi.lock", ["gssapi"]),
    ],
)
def test_lock_satisfies_every_declared_dependency(lock: str, with_extras: list[str]) -> None:
    project = tomllib.loads((tidy.REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = [each for name in with_extras for each in project["optional-dependencies"][name]]
    # `dev` takes in the other extras by naming ourselves.
    declared = [each for each in project["dependencies"] + extras if not each.startswith("penstock[")]
    text = (tidy.REPOSITORY / "requirements" / lock).read_text()
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;]+)", text, re.MULTILINE)
    locked = {canonicalize_name(name): version for name, version in pins}
    for requirement in map(Requirement, declared):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("lock", ["dev.lock", "runtime.lock", "gssapi.lock", "gssapi-build.lock"])
def test_lock_has_a_hash_for_every_line_and_names_no_host(lock: str) -> None:
    text = (tidy.REPOSITORY / "requirements" / lock).read_text()
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.partition("make lock\n")[2].strip()):
        assert "--hash=sha256:" in block
    assert "://" not in text
