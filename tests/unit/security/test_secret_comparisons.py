"""Secrets are compared in a time that tells nothing (CVE-2021-38153): by `hmac.compare_digest` alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src" / "penstock"
PACKAGES = ("security", "broker/login", "broker/handlers/security", "cluster/decisions/security", "http", "client")
SECRET = re.compile(
    r"(^|_)(password|secret|hmac|digest|digests|signature|proof|stored_key|server_key|client_key|salted)($|_)"
)


def compared_secrets(source: str) -> Iterator[str]:
    """What is compared by `==` or `!=`, and called by a name that means a secret."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare) or not any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
            continue
        for side in (node.left, *node.comparators):
            name = side.attr if isinstance(side, ast.Attribute) else side.id if isinstance(side, ast.Name) else ""
            if SECRET.search(name):
                yield ast.unparse(node)


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("given.password == known", True),
        ("if signature != expected: pass", True),
        ("len(final.proof) != len(signature)", False),
        ("hmac.compare_digest(password, known)", False),
        ("password is None", False),
    ],
)
def test_comparison_is_found_when_it_is_of_a_secret(source: str, is_found: bool) -> None:
    assert bool(list(compared_secrets(source))) == is_found


def test_no_secret_is_compared_by_equality_when_all_modules_are_read() -> None:
    found = {}
    for package in PACKAGES:
        for path in sorted((SOURCES / package).rglob("*.py")):
            name = path.relative_to(SOURCES).as_posix()
            compared = sorted(set(compared_secrets(path.read_text(encoding="utf-8"))))
            if compared:
                found[name] = compared
    assert found == {}
