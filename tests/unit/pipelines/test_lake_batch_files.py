from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.batch_files import BatchOfSink, Marks, Plan, plan_moves, write_batch
from penstock.pipelines.sinks.files.operations import ArrowFiles, Files
from penstock.pipelines.sinks.files.partition_names import is_hidden
from tests.unit.pipelines.memory_files import KilledError, MemoryFiles

KINDS = pytest.mark.parametrize("copies", [False, True], ids=["rename", "copy and delete"])
STAGED = ("a=1/part-0.snappy.parquet", "a=1/part-1.snappy.parquet", "a=2/part-0.snappy.parquet")


def batch(number: int, sink: str = "lake", query_id: str = "query") -> BatchOfSink:
    return BatchOfSink(sink, query_id, number)


def staging_into(files: MemoryFiles, rows: str, paths: Sequence[str] = STAGED) -> Callable[[str], Sequence[str]]:
    def stage(staging: str) -> Sequence[str]:
        for path in paths:
            files.step()
            files.stored[f"{staging}/{path}"] = f"{rows} {path}"
        files.step()
        files.stored[f"{staging}/_SUCCESS"] = ""
        return [*paths, "_SUCCESS"]

    return stage


def visible(files: MemoryFiles) -> list[str]:
    return sorted(text for path, text in files.stored.items() if not is_hidden(path))


def rows_of(*batches: str) -> list[str]:
    return sorted(f"{rows} {path}" for rows in batches for path in STAGED)


@KINDS
@pytest.mark.parametrize("first_batch_is_there", [False, True])
def test_each_row_is_there_once_when_killed_at_any_step(copies: bool, first_batch_is_there: bool) -> None:
    for steps in itertools.count():
        files = MemoryFiles(copies=copies)
        if first_batch_is_there:
            write_batch(files, batch(0), staging_into(files, "zero"))
        before = ["zero"] if first_batch_is_there else []
        files.steps_left = steps
        try:
            write_batch(files, batch(1), staging_into(files, "one"))
        except KilledError:
            is_killed = True
        else:
            is_killed = False
        files.steps_left = None
        write_batch(files, batch(1), staging_into(files, "one"))
        assert visible(files) == rows_of(*before, "one"), f"killed after {steps} steps"
        write_batch(files, batch(2), staging_into(files, "two"))
        assert visible(files) == rows_of(*before, "one", "two")
        assert not [path for path in files.stored if "/staging/" in path]
        if not is_killed:
            break
    assert steps > 15


@KINDS
@given(st.lists(st.integers(0, 25), max_size=6), st.integers(1, 3))
def test_each_row_is_there_once_when_killed_again_and_again(copies: bool, kills: list[int], batches: int) -> None:
    files = MemoryFiles(copies=copies)
    remaining = iter(kills)
    for number in range(batches):
        while True:
            files.steps_left = next(remaining, None)
            try:
                write_batch(files, batch(number), staging_into(files, str(number)))
            except KilledError:
                continue
            break
    files.steps_left = None
    assert visible(files) == rows_of(*map(str, range(batches)))


def test_the_second_attempt_may_be_cut_otherwise_when_the_first_had_no_plan_yet() -> None:
    files = MemoryFiles()
    files.steps_left = 4
    with pytest.raises(KilledError):
        write_batch(files, batch(0), staging_into(files, "x"))
    files.steps_left = None
    write_batch(files, batch(0), staging_into(files, "x", ("a=1/part-0.parquet",)))
    assert visible(files) == ["x a=1/part-0.parquet"]


def test_nothing_is_staged_when_the_batch_or_a_later_one_is_done() -> None:
    files = MemoryFiles()
    for number in range(8):
        assert write_batch(files, batch(number), staging_into(files, str(number)))
    for number in (7, 0):
        assert not write_batch(files, batch(number), staging_into(files, "again"))
    assert visible(files) == rows_of(*map(str, range(8)))


def test_what_is_to_be_told_is_told_again_when_killed_before_the_mark() -> None:
    files, told = MemoryFiles(), list[Sequence[str]]()

    def refuse(directories: Sequence[str]) -> None:
        told.append(directories)
        if len(told) == 1:
            raise KilledError

    with pytest.raises(KilledError):
        write_batch(files, batch(0), staging_into(files, "x"), refuse)
    write_batch(files, batch(0), staging_into(files, "x"), refuse)
    assert told == [["a=1", "a=2"], ["a=1", "a=2"]]
    assert visible(files) == rows_of("x")


def test_an_empty_batch_is_marked_and_adds_nothing_when_written() -> None:
    files = MemoryFiles()
    assert write_batch(files, batch(0), lambda _: [])
    assert not visible(files)
    assert not write_batch(files, batch(0), staging_into(files, "late"))


def test_sinks_and_queries_do_not_disturb_each_other_when_they_share_a_directory() -> None:
    files = MemoryFiles()
    write_batch(files, batch(0), staging_into(files, "a"))
    write_batch(files, batch(0, sink="staging"), staging_into(files, "b"))
    write_batch(files, batch(0, query_id="../other"), staging_into(files, "c"))
    assert visible(files) == rows_of("a", "b", "c")


def test_a_lost_file_is_an_error_when_neither_it_nor_its_target_is_there() -> None:
    files = MemoryFiles()

    def killed(_: Sequence[str]) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        write_batch(files, batch(0), staging_into(files, "x"), killed)
    lost = next(path for path in files.stored if not is_hidden(path))
    del files.stored[lost]
    with pytest.raises(PipelineError, match="is gone"):
        write_batch(files, batch(0), staging_into(files, "x"))


def test_names_say_batch_and_format_when_moves_are_planned() -> None:
    plan = plan_moves(
        "s", ["date=1/part-9.c000.csv", "_SUCCESS", "date=1/.part-9.crc", "date=0/part-1.avro"], "batch-7"
    )
    assert plan.moves == (
        ("s/date=0/part-1.avro", "date=0/batch-7-00000.avro"),
        ("s/date=1/part-9.c000.csv", "date=1/batch-7-00001.c000.csv"),
    )
    assert plan.directories == ["date=0", "date=1"]
    assert Plan.from_json(plan.to_json()) == plan


def test_old_marks_and_plans_with_a_mark_are_forgotten_when_others_are_kept() -> None:
    marks = Marks.of([*(f"{number}.done" for number in range(8)), "7.plan", "8.plan", ".x.tmp", "notes"])
    assert marks.to_forget() == ["7.plan", "0.done", "1.done", "2.done"]
    assert marks.to_finish(8) == [8]
    assert marks.to_finish(7) == []


@pytest.fixture(params=["memory", "arrow"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return MemoryFiles() if request.param == "memory" else ArrowFiles(fs.LocalFileSystem(), str(tmp_path))


def test_operations_do_what_the_plan_relies_on_when_files_come_and_go(either: Files) -> None:
    assert either.names("none") == []
    assert either.walk("none") == []
    either.delete("none")
    either.write("x/1.plan", "first")
    either.write("x/1.plan", "second")
    either.write("x/y/deep", "")
    assert either.names("x") == ["1.plan"]
    assert [(file.path, file.size) for file in either.walk("x")] == [("1.plan", 6), ("y/deep", 0)]
    either.move("x/1.plan", "z/a=%2F é/1.done")
    assert not either.exists("x/1.plan")
    assert either.read("z/a=%2F é/1.done") == "second"
    either.delete("x")
    assert [file.path for file in either.walk("")] == ["z/a=%2F é/1.done"]
    either.delete("z/a=%2F é/1.done")
    assert either.walk("") == []
