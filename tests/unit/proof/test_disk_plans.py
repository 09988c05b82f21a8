"""The plans of the disk rounds."""

from __future__ import annotations

import errno
from collections import Counter

import pytest

from proof.disk.plans import Cell, Mode, Plan

CELL = Cell("unlink", "file removal")


def plan(number: int) -> Plan:
    return Plan(CELL, number, Mode.ONCE, errno.EIO, 0, is_crash=False)


@pytest.mark.parametrize(("planned", "came", "expected"), [(9, 4, 2), (9, 1, 1), (3, 0, 1), (2, 7, 2)])
def test_planned_operation_is_one_that_comes_when_the_plan_is_tried_again(
    planned: int, came: int, expected: int
) -> None:
    assert plan(planned).within_reach(Counter({CELL: came})).number == expected


def test_phase_is_one_where_its_kind_came_when_it_did_not_come_in_the_planned_one() -> None:
    came = Counter({Cell("unlink", "load"): 2, Cell("unlink", "retention"): 5, Cell("open", "append"): 90})
    again = plan(3).within_reach(came)
    assert (again.cell, again.number) == (Cell("unlink", "retention"), 1)
