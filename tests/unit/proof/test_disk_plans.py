"""The plans of the disk rounds."""

from __future__ import annotations

import errno
from collections import Counter

import pytest

from penstock.proof.disk.plans import Cell, Mode, Plan

CELL = Cell("unlink", "file removal")


def plan(number: int) -> Plan:
    return Plan(CELL, number, Mode.ONCE, errno.EIO, 0, is_crash=False)


@pytest.mark.parametrize(("planned", "came", "expected"), [(9, 4, 4), (3, 0, 1), (2, 7, 2)])
def test_planned_operation_is_one_that_comes_when_the_plan_is_tried_again(
    planned: int, came: int, expected: int
) -> None:
    assert plan(planned).within_reach(Counter({CELL: came})).number == expected
