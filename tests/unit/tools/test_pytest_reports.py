from __future__ import annotations

from pathlib import Path

from pytest_reports import Case, parse_cases, read_cases

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5">
<testcase classname="tests.unit.test_one" name="test_good" file="tests/unit/test_one.py" line="1" time="0.25" />
<testcase classname="tests.unit.test_one.TestGroup" name="test_bad[a - b]" file="tests/unit/test_one.py" time="2">
  <failure message="AssertionError: broker 3 is gone&#10;assert 1 == 2">the long text</failure>
</testcase>
<testcase classname="tests.unit.test_one" name="test_skipped" file="tests/unit/test_one.py" line="9" time="0">
  <skipped type="pytest.skip" message="no Java">there</skipped>
</testcase>
<testcase classname="tests.unit.test_one" name="test_end" file="tests/unit/test_one.py" line="9" time="0">
  <error message='failed on teardown with "ClusterError"'>the long text</error>
</testcase>
<testcase classname="" name="tests.unit.test_broken"><error message="">no module</error></testcase>
</testsuite></testsuites>
"""


def test_tests_are_named_as_pytest_takes_them_with_their_times_and_failures() -> None:
    cases = parse_cases(REPORT)
    assert cases == [
        Case("tests/unit/test_one.py::test_good", 0.25),
        Case("tests/unit/test_one.py::TestGroup::test_bad[a - b]", 2.0, ("AssertionError: broker 3 is gone",)),
        Case("tests/unit/test_one.py::test_skipped", 0.0, is_skipped=True),
        Case("tests/unit/test_one.py::test_end", 0.0, ('failed on teardown with "ClusterError"',)),
        Case("tests.unit.test_broken", 0.0, ("(no message)",)),
    ]
    assert [case.is_passed for case in cases] == [True, False, False, False, False]


def test_there_are_no_tests_when_no_whole_report_was_written(tmp_path: Path) -> None:
    assert read_cases(tmp_path / "none.xml") == []
    (tmp_path / "half.xml").write_text(REPORT[:400])
    assert read_cases(tmp_path / "half.xml") == []
