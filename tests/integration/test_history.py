"""Histories of real clients while the broker is killed and paused; see penstock.testing.history_check for the rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from penstock.testing.history import Outcome, read_history, write_history
from penstock.testing.history.__main__ import main as history_main
from penstock.testing.history.run import HistoryRun, check_file
from penstock.testing.history_check import check
from penstock.testing.processes import BrokerProcess
from proof.frame import main
from proof.history.rounds import BROKER_CONFIG, Faults
from proof.kinds import KINDS


def run_history(directory: Path, seconds: float) -> Path:
    """The saved history of a sound run."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"history with seed {seed}")  # shown by pytest when the test fails
    with BrokerProcess(directory / "data", config=BROKER_CONFIG) as broker:
        faults = Faults(broker, seed, say=print)
        run = HistoryRun(broker.bootstrap_servers, seconds, seed, disturb=faults.inject)
        report = run.run()
    saved = directory / "history.jsonl"
    write_history(saved, run.operations, run.final)
    print(report)
    assert report.is_sound, "\n".join([str(report), f"saved in {saved}", *map(str, report.history.anomalies)])
    assert report.history.sent > 100
    assert report.history.polled > 100
    assert any(operation.transaction and operation.outcome is Outcome.OK for operation in run.operations)
    return saved


def test_history_has_no_anomaly_when_the_broker_is_killed_and_paused(tmp_path: Path) -> None:
    """And it has one as soon as anything is wrong with what is left in the end."""
    saved = run_history(tmp_path, 10.0)
    assert check_file(saved).is_sound
    history, final = read_history(saved)
    target, records = max(final.items(), key=lambda item: len(item[1]))
    assert len(records) > 10
    middle = len(records) // 2
    (offset, value), (next_offset, next_value) = records[middle : middle + 2]
    defects = {
        "lost": [*records[:middle], *records[middle + 1 :]],
        "lost at the end": records[:middle],
        "doubled": [*records, (records[-1][0] + 1, value)],
        "reordered": [*records[:middle], (offset, next_value), (next_offset, value), *records[middle + 2 :]],
        "changed": [*records[:middle], (offset, "something else"), *records[middle + 1 :]],
    }
    missed = [name for name, left in defects.items() if check(history, final={**final, target: left}).is_sound]
    assert not missed


@pytest.mark.soak
def test_history_has_no_anomaly_when_the_broker_is_killed_and_paused_for_five_minutes(tmp_path: Path) -> None:
    run_history(tmp_path, 300.0)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "of the rounds": lambda arguments: main(KINDS, ["history", *arguments]),
    "of the package": history_main,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_succeeds_when_the_broker_is_somebody_elses(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, run = tmp_path / "history.jsonl", COMMANDS[command]
    with BrokerProcess(tmp_path / "data", config=BROKER_CONFIG) as broker:
        arguments = ["--bootstrap", broker.bootstrap_servers, "--seconds", "1", "--seed", "7", "--out", str(saved)]
        assert run(arguments) == 0
    assert run(["--check", str(saved)]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "seed 7"
    assert second.startswith("history: seed 7, ")
    assert second.endswith(": no anomaly")
    assert second.removeprefix("history: seed 7, ") == third.removeprefix("history: ")
