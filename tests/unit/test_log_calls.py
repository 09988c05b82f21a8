"""Messages of log lines are constant strings (ADR 5)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("src", "proof")
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
# A rate-limited line has its key and its level first, a coordinator's notice its level.
MESSAGE_AT = {"once_per": 2, "tell_operator": 1}


def violations(source: str) -> Iterator[int]:
    """The lines of logging calls whose message is put together at run time."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, owner = node.func.attr, node.func.value
        is_logger = isinstance(owner, ast.Name) and owner.id in ("logger", "log", "_log")
        if (is_logger and name in LEVELS) or name in MESSAGE_AT:
            position = MESSAGE_AT.get(name, 0)
            message = node.args[position] if len(node.args) > position else None
            if not _is_constant(message):
                yield node.lineno


def _is_constant(message: ast.expr | None) -> bool:
    if isinstance(message, ast.Name):
        return message.id.isupper()
    if isinstance(message, ast.Subscript):  # a table of messages
        return _is_constant(message.value)
    if isinstance(message, ast.Attribute):  # a notice, whose message was constant where the notice was made
        return ast.unparse(message) == "notice.message"
    return isinstance(message, ast.Constant) and isinstance(message.value, str)


@pytest.mark.parametrize(
    "line",
    [
        'logger.error(f"{x} failed")',
        'logger.info("a" + x)',
        "logger.warning(reason)",
        'x.once_per("k", 1, f"{x}")',
        'x.tell_operator(1, f"{x}")',
    ],
)
def test_call_is_found_when_its_message_is_not_constant(line: str) -> None:
    assert list(violations(line)) == [1]


def test_every_message_is_constant_when_the_source_is_read() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for folder in SOURCES
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        for line in violations(path.read_text(encoding="utf-8"))
    ]
    assert found == []
