from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.batch_files import BatchOfSink, write_batch
from penstock.pipelines.sinks.files.compaction import Compacted, compact, find_small_files, finish_compactions
from penstock.pipelines.sinks.files.operations import StoredFile
from penstock.pipelines.sinks.files.partition_names import is_hidden
from tests.unit.pipelines.memory_files import KilledError, MemoryFiles

TARGET = 100
KINDS = pytest.mark.parametrize("copies", [False, True], ids=["rename", "copy and delete"])


class Lines:
    """Joins files of lines."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files = files

    def __call__(self, paths: Sequence[str], staging: str, count: int) -> Sequence[str]:
        self.files.step()
        self.files.stored[f"{staging}/part-0.txt"] = "".join(self.files.stored[path] for path in paths)
        return ["part-0.txt"]


def lines(files: MemoryFiles) -> list[str]:
    return sorted("".join(text for path, text in files.stored.items() if not is_hidden(path)).split())


def lake(copies: bool = False) -> MemoryFiles:
    files = MemoryFiles(copies=copies)
    files.stored = {f"date=1/{number}": f"{number}\n" for number in range(4)} | {"date=2/x": "x\n", "date=2/y": "y\n"}
    return files


@KINDS
def test_each_row_stays_once_when_killed_at_any_step(copies: bool) -> None:
    wanted = lines(lake())
    for steps in itertools.count():
        files = lake(copies)
        files.steps_left = steps
        try:
            compact(files, "", TARGET, Lines(files))
        except KilledError:
            is_killed = True
        else:
            is_killed = False
        files.steps_left = None
        finish_compactions(files)
        assert lines(files) == wanted, f"killed after {steps} steps"
        compact(files, "", TARGET, Lines(files))
        assert lines(files) == wanted
        assert len([path for path in files.stored if not is_hidden(path)]) == 2
        if not is_killed:
            break
    assert steps > 20


def test_only_the_named_directory_changes_when_one_is_named() -> None:
    files = lake()
    assert compact(files, "date=1", TARGET, Lines(files)) == Compacted(1, 4, 1)
    assert sorted(path for path in files.stored if path.startswith("date=2")) == ["date=2/x", "date=2/y"]
    assert compact(files, "date=1", TARGET, Lines(files)) == Compacted()


def test_files_of_an_unfinished_batch_are_left_alone_when_others_are_compacted() -> None:
    files, batch = lake(), BatchOfSink("lake", "query", 0)

    def stage(staging: str) -> Sequence[str]:
        files.stored[f"{staging}/date=1/part"] = "new\n"
        return ["date=1/part"]

    def killed(_: Sequence[str]) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        write_batch(files, batch, stage, killed)
    compact(files, "", TARGET, Lines(files))
    write_batch(files, batch, stage)
    assert lines(files) == sorted([*lines(lake()), "new"])


def test_large_files_and_single_ones_stay_when_small_ones_are_looked_for() -> None:
    stored = [
        StoredFile("a/1", 10),
        StoredFile("a/2", 49),
        StoredFile("a/3", 50),
        StoredFile("b/1", 1),
        StoredFile("c/1", 45),
        StoredFile("c/2", 45),
        StoredFile("c/held", 1),
        StoredFile("_penstock/x", 1),
        StoredFile("_penstock/y", 1),
    ]
    found = find_small_files(stored, frozenset({"c/held"}), TARGET)
    assert [(small.directory, small.paths) for small in found] == [("a", ("a/1", "a/2")), ("c", ("c/1", "c/2"))]


def test_it_gives_up_when_another_compaction_took_the_files() -> None:
    files = lake()

    def rewrite(paths: Sequence[str], staging: str, count: int) -> Sequence[str]:
        del files.stored[paths[0]]
        return Lines(files)(paths[1:], staging, count)

    with pytest.raises(PipelineError, match="went away"):
        compact(files, "", TARGET, rewrite)
    assert not [path for path in files.stored if path.startswith("_penstock")]
