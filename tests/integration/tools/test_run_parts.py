"""The parts of `make test`, each a pytest of its own, on tests that need nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import run_tests


def test_times_are_written_and_the_run_fails_when_one_part_has_failed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    (tmp_path / "test_two.py").write_text("def test_two():\n    raise ValueError\n")
    parts = {f"part {name}": (str(tmp_path / f"test_{name}.py"),) for name in ("one", "two")}
    times = tmp_path / "times" / "test-times.txt"
    assert run_tests.run_parts(parts, times) == 1
    said, written = capfd.readouterr().out, times.read_text()
    for text in (said, written):
        assert " s  part one: 1 tests, 0 min " in text
        assert " s  part two: 1 tests, 0 min " in text
        assert " s  all parts together, 0 min " in text
    assert "test_one.py::test_one\n" in written
    assert "test_two.py::test_two\n" in written
    assert "part two, tested meanwhile:" in said
    assert said.splitlines()[-1].endswith("test_two.py::test_two: ValueError")
