from __future__ import annotations

import re
import tomllib

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
        "class Utility: ...\n",
        "class Implementation: ...\n",
    ],
)
def test_nothing_is_found_when_the_code_only_resembles_a_habit(text: str) -> None:
    assert findings(text) == []


def test_module_name_is_found_when_it_says_nothing() -> None:
    assert findings("x = 1\n", "src/penstock/log/file_utils.py") != []


def test_sleep_is_found_when_a_unit_test_sleeps() -> None:
    text = "import time\ntime.sleep(1)\n"
    assert findings(text, "tests/unit/test_segment.py") != []
    assert findings(text, "tests/integration/test_crash.py") == []


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
        ("dev.lock", ["spark", "cluster", "databases", "dev"]),
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
