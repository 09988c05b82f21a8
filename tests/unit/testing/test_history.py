"""Histories in files, and how the clients read their own records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from penstock.testing.fleet.recorder import Recorder, group_polls
from penstock.testing.fleet.values import read_value
from penstock.testing.history import (
    Assign,
    Isolation,
    Operation,
    Outcome,
    Poll,
    Send,
    read_history,
    write_history,
)
from penstock.testing.history.__main__ import main as history_main
from penstock.testing.history.run import HistoryRunReport, check_file
from proof.frame import main
from proof.kinds import KINDS

if TYPE_CHECKING:
    from confluent_kafka import Message

HISTORY = [
    Operation(1, Outcome.OK, (Send("t", 0, 1, 0), Send("u", 1, 2)), invoked=1, completed=2),
    Operation(2, Outcome.UNKNOWN, (Poll("t", 0, ((0, 1), (4, "x"))),), True, Isolation.READ_UNCOMMITTED, 3, 5, 4),
    Operation(3, Outcome.FAILED, (Assign(frozenset({("t", 0), ("u", 1)})),)),
]


@dataclass
class PolledMessage:
    content: bytes | None
    at: tuple[str, int, int] = ("t", 0, 0)

    def value(self) -> bytes | None:
        return self.content

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]


def polled(content: bytes | None, *at: str | int) -> Message:
    return cast("Message", PolledMessage(content, at) if at else PolledMessage(content))  # type: ignore[arg-type]


def test_history_is_the_same_when_it_is_written_and_read_back(tmp_path: Path) -> None:
    final = {("t", 0): [(0, 1), (3, "x")], ("u", 1): []}
    write_history(tmp_path / "h", HISTORY, final)
    assert read_history(tmp_path / "h") == (HISTORY, final)


@pytest.mark.parametrize("line", ["[]", "{}", "nothing", '{"final": [1]}', '{"process": 1, "outcome": "fine"}'])
def test_error_names_the_line_when_a_file_is_not_a_history(tmp_path: Path, line: str) -> None:
    path = tmp_path / "h"
    write_history(path, HISTORY)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match="line 4: not an operation"):
        read_history(path)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "of the rounds": lambda arguments: main(KINDS, ["history", *arguments]),
    "of the package": history_main,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_fails_and_names_the_anomaly_when_a_saved_history_has_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = [Operation(1, Outcome.OK, (Send("t", 0, 1, 5), Send("t", 0, 2, 4)))]
    write_history(tmp_path / "h", history)
    assert COMMANDS[command](["--check", str(tmp_path / "h")]) == 1
    anomaly, line = capsys.readouterr().out.splitlines()
    assert anomaly == "int-nonmonotonic-send: t-0: process 1 sent 2 to offset 4 after offset 5"
    assert line == f"history: 1 operations, 2 records sent, 0 polled: 1 int-nonmonotonic-send; first: {anomaly}"


def test_command_says_what_is_wrong_when_a_file_is_not_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "h").write_text("nothing\n")
    assert history_main(["--check", str(tmp_path / "h")]) == 2
    assert "line 1: not an operation" in capsys.readouterr().err


def test_run_is_not_sound_when_it_had_a_problem(tmp_path: Path) -> None:
    write_history(tmp_path / "h", HISTORY[:1])
    history = check_file(tmp_path / "h")
    assert history.is_sound
    report = HistoryRunReport(7, history, {"kill": 2}, ("a client died",))
    assert not report.is_sound
    assert str(report) == f"history: seed 7, 2 kills, {history}; a client died"


def test_positions_and_values_are_new_each_time_when_they_are_taken() -> None:
    recorder = Recorder()
    first = recorder.take_position()
    recorder.record(1, Outcome.OK, [Send("t", 0, recorder.take_value())], first, transaction=True, committing=first)
    (operation,) = recorder.operations
    assert operation.invoked == first < operation.completed
    assert recorder.take_value() == 2


@pytest.mark.parametrize("content", [None, b"", b"12", b"12 ...", b"x " + b"." * 100])
def test_value_is_no_number_when_a_record_is_not_whole(content: bytes | None) -> None:
    assert isinstance(read_value(polled(content)), str)


def test_polls_are_grouped_by_partition_when_a_batch_has_several() -> None:
    content = b"%d " + b"." * 100
    batch = [polled(content % 1, "t", 0, 7), polled(content % 2, "t", 1, 0), polled(content % 3, "t", 0, 9)]
    assert group_polls(batch, read_value) == [Poll("t", 0, ((7, 1), (9, 3))), Poll("t", 1, ((0, 2),))]
