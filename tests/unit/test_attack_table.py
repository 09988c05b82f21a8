"""docs/security-attacks.md names a test for each attack, and the tests are there. Numbers in the guide are in force."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.server.net import limits

ROOT = Path(__file__).parents[2]
ATTACKS = 33
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (\d+) \|.*$", re.MULTILINE)


def test_every_attack_has_a_row_with_a_test_in_the_table() -> None:
    text = (ROOT / "docs" / "security-attacks.md").read_text(encoding="utf-8")
    rows = list(ROW.finditer(text))
    assert sorted({int(row[1]) for row in rows}) == list(range(1, ATTACKS + 1))
    assert [row[0] for row in rows if not NAMED.search(row[0])] == []


def test_every_test_that_the_table_names_is_there() -> None:
    text = (ROOT / "docs" / "security-attacks.md").read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert text.count("`tests/") == len(named) + 1, "a test is named in another form"
    missing = []
    for path, function in named:
        file = ROOT / path
        if not file.exists() or not re.search(rf"def {function}\(", file.read_text(encoding="utf-8")):
            missing.append(f"{path}::{function}")
    assert missing == []


def test_numbers_of_handshakes_in_the_guide_are_those_in_force() -> None:
    text = " ".join((ROOT / "docs" / "guides" / "security.md").read_text(encoding="utf-8").split())
    most, for_one = limits.HANDSHAKES, limits.HANDSHAKES_PER_ADDRESS
    assert f"at most {most} handshakes under way, and {for_one} for one address" in text
