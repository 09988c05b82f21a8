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


def test_each_part_writes_into_a_directory_of_its_own_that_is_gone_afterwards(tmp_path: Path) -> None:
    for name in ("one", "two"):
        text = f"def test_it(tmp_path):\n    open({str(tmp_path / name)!r}, 'w').write(str(tmp_path))\n"
        (tmp_path / f"test_{name}.py").write_text(text)
    parts = {name: (str(tmp_path / f"test_{name}.py"),) for name in ("one", "two")}
    assert run_tests.run_parts(parts, tmp_path / "times.txt") == 0
    one, two = (Path((tmp_path / name).read_text()) for name in ("one", "two"))
    assert one.parent.parent != two.parent.parent
    assert not one.parent.parent.exists()
    assert not two.parent.parent.exists()


def test_a_part_writes_to_memory_and_passed_tests_leave_nothing_there_when_the_table_says_so(tmp_path: Path) -> None:
    memory = run_tests.find_memory()
    if memory is None:
        pytest.skip("this machine has no shared memory to write to")
    seen = tmp_path / "seen"
    (tmp_path / "test_it.py").write_text(
        f"def test_one(tmp_path):\n    open({str(seen)!r}, 'w').write(str(tmp_path))\n"
        f"def test_two():\n    assert not __import__('os').path.exists(open({str(seen)!r}).read())\n"
    )
    (name,) = run_tests.IN_MEMORY
    assert run_tests.run_parts({name: (str(tmp_path / "test_it.py"),)}, tmp_path / "times.txt") == 0
    written = Path(seen.read_text())
    assert written.is_relative_to(memory)
    assert not written.parent.parent.exists()
