"""What is kept of a test that failed, with servers that are none. With a real one: tests/integration."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.keeping import Keeper, Limits, count_bytes, prune


@dataclass
class QuietServer:
    name: str
    log_path: Path
    is_running: bool = True


@dataclass
class Desk:
    """A keeper, and what it has around it."""

    path: Path

    def __post_init__(self) -> None:
        self.root = self.path / "kept"
        self.keeper = Keeper(self.root, Limits(one_bytes=1024**2))
        self.keeper.common = [self.path / "base"]
        self.keeper.begin_test()
        self.tmp_path = self.directory("base/test_one0")

    def directory(self, name: str) -> Path:
        made = self.path / name
        made.mkdir(parents=True)
        return made

    def server(self, log: str, *, is_running: bool = True) -> QuietServer:
        path = self.path / log
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {number}\n" for number in range(30)))
        server = QuietServer(f"broker of {log}", path, is_running)
        self.keeper.note_server(server)
        return server

    def kept(self) -> list[str]:
        """Files, without the name of the test."""
        return sorted(
            "/".join(path.relative_to(self.root).parts[1:]) for path in self.root.rglob("*") if path.is_file()
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


class TestKept:
    def test_own_directories_are_moved_when_the_test_failed(self, desk: Desk) -> None:
        (desk.tmp_path / "data").write_text("x")
        temporary = desk.directory("base/penstock-cluster-1")
        desk.keeper.note_made(temporary)
        desk.server("base/penstock-cluster-1/broker-1.log")
        desk.keeper.note_unused(temporary)
        assert not temporary.exists()
        said = desk.keeper.keep("test_one[a/b]", desk.tmp_path)
        assert desk.kept() == ["penstock-cluster-1/broker-1.log", "test_one0/data"]
        assert not desk.tmp_path.exists()
        (place,) = desk.root.iterdir()
        assert place.name.startswith("test_one-a-b--2")
        assert said == [
            f"What the test and its servers wrote is kept in {place} (the newest 20 of these stay, up to 4 GiB)."
        ]

    def test_directories_of_servers_that_go_on_are_copied(self, desk: Desk) -> None:
        server = desk.server("base/cluster0/broker-1.log")
        embedded = desk.directory("base/penstock-2")
        (embedded / "data").write_text("x")
        desk.keeper.note_made(embedded)
        desk.keeper.keep("test_one", desk.tmp_path)
        assert desk.kept() == ["cluster0/broker-1.log", "penstock-2/data"]
        assert server.log_path.exists()
        assert embedded.exists()

    def test_only_the_log_is_kept_when_a_server_writes_where_others_do(self, desk: Desk) -> None:
        desk.server("base/spark.log")
        desk.directory("base/other")
        (desk.path / "base/other/data").write_text("x")
        desk.keeper.keep("test_one", desk.tmp_path)
        assert desk.kept() == ["spark.log"]

    def test_only_logs_are_kept_when_a_directory_is_large(self, desk: Desk) -> None:
        desk.server("base/cluster0/broker-1.log")
        (desk.path / "base/cluster0/data").write_bytes(os.urandom(1024**2 + 1))
        said = desk.keeper.keep("test_one", desk.tmp_path)
        assert desk.kept() == ["cluster0/broker-1.log"]
        assert "the logs alone" in said[1]

    def test_nothing_is_kept_or_said_when_there_are_no_files(self, desk: Desk) -> None:
        assert desk.keeper.keep("test_one", desk.tmp_path) == []
        assert desk.keeper.keep("test_one", None) == []
        assert not desk.root.exists()

    def test_two_places_are_there_when_a_test_fails_twice_in_a_second(self, desk: Desk) -> None:
        desk.server("base/cluster0/broker-1.log")
        desk.keeper.keep("test_one", None)
        desk.keeper.keep("test_one", None)
        assert len(list(desk.root.iterdir())) == 2


class TestPassed:
    def test_temporary_directories_are_removed_when_the_test_ends(self, desk: Desk) -> None:
        temporary = desk.directory("base/penstock-cluster-1")
        desk.keeper.note_made(temporary)
        desk.keeper.note_unused(temporary)
        desk.keeper.end_test()
        assert [path.name for path in (desk.path / "base").iterdir()] == ["test_one0"]

    def test_a_directory_is_left_to_its_user_when_no_test_runs(self, desk: Desk) -> None:
        desk.keeper.end_test()
        temporary = desk.directory("base/penstock-cluster-1")
        desk.keeper.note_made(temporary)
        desk.keeper.note_unused(temporary)
        assert temporary.exists()
        assert desk.keeper.keep("test_one", None) == []

    def test_only_servers_that_run_are_remembered_when_the_test_ends(self, desk: Desk) -> None:
        desk.server("base/cluster0/broker-1.log", is_running=False)
        desk.server("base/cluster0/broker-2.log")
        desk.keeper.end_test()
        assert "broker-1" not in "".join(desk.keeper.read_logs())
        assert "broker-2" in "".join(desk.keeper.read_logs())


class TestLogs:
    def test_the_last_lines_are_read_of_each_server_once(self, desk: Desk) -> None:
        server = desk.server("base/cluster0/broker-1.log", is_running=False)
        desk.keeper.note_server(server)  # it was started again
        head, *lines = desk.keeper.read_logs()
        assert head == f"broker of base/cluster0/broker-1.log has ended; the last lines of {server.log_path}:"
        assert lines == [f"    line {number}" for number in range(10, 30)]

    def test_a_log_is_found_when_its_directory_is_no_longer_used(self, desk: Desk) -> None:
        desk.server("base/penstock-cluster-1/broker-1.log")
        desk.keeper.note_unused(desk.path / "base/penstock-cluster-1")
        assert desk.keeper.read_logs()[-1] == "    line 29"

    def test_a_server_without_a_log_says_nothing(self, desk: Desk) -> None:
        desk.server("base/cluster0/broker-1.log").log_path.unlink()
        assert desk.keeper.read_logs()[1:] == ["    (nothing)"]

    def test_servers_are_counted_when_there_are_many(self, desk: Desk) -> None:
        for number in range(14):
            desk.server(f"base/cluster0/broker-{number}.log")
        assert desk.keeper.read_logs()[-1] == "and 2 servers more"


class TestPrune:
    def place(self, root: Path, number: int, size: int) -> None:
        place = root / str(number)
        place.mkdir()
        (place / "data").write_bytes(os.urandom(size))
        os.utime(place, (number, number))

    def test_the_newest_stay_when_there_are_too_many(self, tmp_path: Path) -> None:
        for number in range(5):
            self.place(tmp_path, number, 1)
        prune(tmp_path, Limits(places=2))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]

    def test_the_newest_stay_when_all_take_too_much(self, tmp_path: Path) -> None:
        for number in range(3):
            self.place(tmp_path, number, 100_000)
        limit = count_bytes(tmp_path / "2") * 5 // 2
        prune(tmp_path, Limits(total_bytes=limit))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
        prune(tmp_path, Limits(total_bytes=1))
        assert [path.name for path in tmp_path.iterdir()] == ["2"]
