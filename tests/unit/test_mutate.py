"""What `tools/mutate.py` changes in a module, and that tests run against the changed module."""

from __future__ import annotations

import ast

import pytest

from mutate import change_tree, find_changes

CODE = '''"""A docstring with 1 number."""
LIMIT: int = 5


def is_low(value: int, is_strict: bool = True) -> bool:
    if is_strict:
        return value < LIMIT and not value == 3
    return value - 1 <= LIMIT
'''


def test_each_comparison_condition_sum_and_number_is_changed_once() -> None:
    changes = find_changes("penstock.core.limits", CODE)
    assert [(change.line, change.after) for change in changes] == [
        (2, "LIMIT: int = 6"),
        (5, "False"),
        (6, "not is_strict"),
        (7, "return value < LIMIT or not value == 3"),
        (7, "value <= LIMIT and (not value == 3)"),
        (7, "value < LIMIT and (not not value == 3)"),
        (7, "not value != 3"),
        (7, "value == 4"),
        (8, "return value - 1 < LIMIT"),
        (8, "value + 1 <= LIMIT"),
        (8, "value - 2"),
    ]
    assert str(changes[0]) == "src/penstock/core/limits.py:2: LIMIT: int = 5  ->  LIMIT: int = 6"


@pytest.mark.parametrize("number", range(11))
def test_the_rest_stays_when_one_place_is_changed(number: int) -> None:
    before, after = ast.parse(CODE), change_tree(CODE, number)
    assert ast.unparse(before) != ast.unparse(after)
    compile(after, "changed", "exec")
    changed = [
        (old, new)
        for old, new in zip(ast.unparse(before).split("\n"), ast.unparse(after).split("\n"), strict=True)
        if old != new
    ]
    assert len(changed) == 1
