"""What pytest reports of a run in JUnit's XML: each test with its time, and why it failed."""

from __future__ import annotations

import contextlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    test: str  # as pytest takes it: tests/unit/test_x.py::TestClass::test_name
    seconds: float  # with its fixtures
    failures: tuple[str, ...] = ()  # the first line of each: a test may fail, and its end too
    is_skipped: bool = False

    @property
    def is_passed(self) -> bool:
        return not self.failures and not self.is_skipped


def report_options(path: Path) -> tuple[str, ...]:
    """For pytest. The older family of reports has the files of tests."""
    return f"--junit-xml={path}", "-o", "junit_family=xunit1"


def read_cases(path: Path) -> list[Case]:
    """None where pytest did not come to write a report, or was killed while it wrote."""
    with contextlib.suppress(FileNotFoundError, ElementTree.ParseError):
        return parse_cases(path.read_text())
    return []


def parse_cases(text: str) -> list[Case]:
    return [_parse(case) for case in ElementTree.fromstring(text).iter("testcase")]  # noqa: S314 - our own pytest's


def _parse(case: ElementTree.Element) -> Case:
    failures = [*case.findall("failure"), *case.findall("error")]
    return Case(
        _name(case),
        float(case.get("time", "0")),
        tuple(_first_line(failure.get("message", "")) for failure in failures),
        case.find("skipped") is not None,
    )


def _first_line(message: str) -> str:
    return (message.strip().splitlines() or ["(no message)"])[0]


def _name(case: ElementTree.Element) -> str:
    path, within, name = (case.get(key, "") for key in ("file", "classname", "name"))
    if not path:  # a module that could not be imported
        return name or within
    classes = within.removeprefix(path.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join([path, *filter(None, classes.split(".")), name])
