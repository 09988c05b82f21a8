"""The locks that environments are made of fit each other: `make test` adds to what `make demo` has installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def pins_of(lock: str) -> set[str]:
    text = (REPOSITORY / "requirements" / f"{lock}.lock").read_text()
    return set(re.findall(r"^([a-z0-9-]+==[^ ;]+)", text, re.MULTILINE))


def test_nothing_is_installed_in_another_version_when_tests_follow_the_demo() -> None:
    assert pins_of("demo") - pins_of("dev") == set()


def test_the_demo_brings_all_that_the_package_and_its_extra_for_spark_name() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named = {re.split(r"[^a-z0-9-]", each)[0] for each in project["dependencies"]}
    named |= {re.split(r"[^a-z0-9-]", each)[0] for each in project["optional-dependencies"]["spark"]}
    assert named - {pin.partition("==")[0] for pin in pins_of("demo")} == set()
