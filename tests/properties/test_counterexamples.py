"""A property that fails says so within the limit of a test, however long its counterexample could be made smaller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import engine

ROOT = Path(__file__).parents[2]
EXAMPLE_SECONDS, SHRINKING_SECONDS = 0.02, 0.5
# Hypothesis runs a counterexample again to see whether it fails twice, and to describe it.
REPLAYS = 4
FAILING = f"""
import time
import tests.conftest
from hypothesis import given, settings, strategies as st

failures = 0

@settings(database=None, derandomize=True, report_multiple_bugs=False)
@given(st.lists(st.integers(0, 10**9), max_size=50))
def stays_small(numbers):
    global failures
    if failures or sum(numbers) > 10**9:
        failures += 1
        time.sleep({EXAMPLE_SECONDS})
    assert sum(numbers) <= 10**9

try:
    stays_small()
except AssertionError as error:
    print("runs:", failures, *error.__notes__)
"""


def test_counterexample_is_reported_when_the_time_to_make_it_smaller_is_over() -> None:
    limit = {"PENSTOCK_SHRINKING_SECONDS": str(SHRINKING_SECONDS)}
    command = [sys.executable, "-c", FAILING]
    said = subprocess.run(command, cwd=ROOT, env=os.environ | limit, check=True, capture_output=True, text=True).stdout
    runs, report = said.partition("runs: ")[2].split(maxsplit=1)
    assert int(runs) <= SHRINKING_SECONDS / EXAMPLE_SECONDS + REPLAYS
    assert "stays_small(" in report
    assert "@reproduce_failure" in report


def test_there_is_time_left_for_the_report_when_a_counterexample_was_made_smaller(pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("timeout")) >= 3 * engine.MAX_SHRINKING_SECONDS
