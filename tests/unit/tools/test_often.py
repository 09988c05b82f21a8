"""What `make often` is asked for, what a round came to, and what is said at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import often
from often import Choice, Failure, Outcome
from pytest_reports import Case
from run_tests import INTEROP_OPTIONS, OWN_SPARK, WITH_CLUSTERS

LOGS = Path(".cache/often/now")

CASES = [
    Case("tests/unit/test_one.py::test_good", 0.1),
    Case("tests/unit/test_one.py::TestGroup::test_bad[a - b]", 2.0, ("AssertionError", 'failed on teardown with "E"')),
    Case("tests/unit/test_one.py::test_skipped", 0.0, is_skipped=True),
    Case("tests.unit.test_broken", 0.0, ("collection failure",)),
]


def say_seed(seed: int) -> str:
    return f"pytest --seed {seed}"


def failed(number: int, *failures: Failure) -> Outcome:
    return Outcome(number, 1000 + number, 10.0, 3, failures)


def passed(number: int) -> Outcome:
    return failed(number)


class TestChoice:
    @pytest.mark.parametrize("option", ["--rounds=0", "--at-once=0", "--busy=-1", "--minutes=-1", "--minutes=nan"])
    def test_a_number_is_refused_when_nothing_could_run_by_it(
        self, capsys: pytest.CaptureFixture[str], option: str
    ) -> None:
        with pytest.raises(SystemExit):
            often.parse(["tests/unit", option])
        assert "--rounds and --at-once are at least 1" in capsys.readouterr().err

    def test_what_the_command_does_not_know_goes_to_pytest(self) -> None:
        given = [
            "tests/unit",
            "-k",
            "a or b",
            "--rounds",
            "3",
            "-x",
            "--busy",
            "0",
            "--minutes",
            "1.5",
            "--at-once",
            "2",
        ]
        assert often.parse(given) == Choice(["tests/unit", "-k", "a or b", "-x"], 3, 0, 1.5, 2)

    def test_a_part_is_known_by_a_piece_of_its_name_and_narrowed_by_pytest(self) -> None:
        assert often.parse(["--part", "Clusters that", "-k", "guide"]).tests == [WITH_CLUSTERS, "-k", "guide"]

    def test_a_part_of_interop_brings_its_options(self) -> None:
        assert often.find_part("hadoop") == (*INTEROP_OPTIONS, "tests/interop/spark", "tests/interop/hadoop")

    def test_a_whole_name_is_taken_when_it_is_also_a_piece_of_another(self) -> None:
        assert often.find_part("streams") == ("tests/pipelines/streams",)
        assert often.find_part("pipelines with") == OWN_SPARK

    @pytest.mark.parametrize(
        ("piece", "message"),
        [("brokers", "'brokers' is in several names: .*hurt; .*clients"), ("moon", "no part .*: the broker's code; ")],
    )
    def test_the_names_are_said_when_a_piece_names_no_single_part(self, piece: str, message: str) -> None:
        with pytest.raises(LookupError, match=message):
            often.find_part(piece)

    @pytest.mark.parametrize("arguments", [[], ["--rounds", "3"], ["--part", "moon"]])
    def test_nothing_runs_when_no_tests_are_named(self, arguments: list[str]) -> None:
        with pytest.raises(SystemExit):
            often.parse(arguments)


class TestJudge:
    def test_failures_are_counted_by_test(self) -> None:
        outcome = often.judge(7, 42, 83.4, 1, CASES)
        assert outcome.failures == [
            Failure("tests/unit/test_one.py::TestGroup::test_bad[a - b]", "AssertionError"),
            Failure("tests/unit/test_one.py::TestGroup::test_bad[a - b]", 'failed on teardown with "E"'),
            Failure("tests.unit.test_broken", "collection failure"),
        ]
        assert (outcome.number, outcome.seed, outcome.passed) == (7, 42, 1)
        said = "round 7 of 20: 2 failed, 1 passed in 83 s: test_bad[a - b], tests.unit.test_broken"
        assert often.describe(outcome, 20) == said

    def test_a_good_round_says_how_many_passed(self) -> None:
        assert often.describe(passed(2), 20) == "round 2 of 20: 3 passed in 10 s"

    @pytest.mark.parametrize(("exit_code", "is_hopeless"), [(-9, False), (3, False), (4, True), (5, True)])
    def test_a_run_without_a_report_has_failed(self, exit_code: int, is_hopeless: bool) -> None:
        outcome = often.judge(1, 2, 3.0, exit_code, [])
        assert [failure.test for failure in outcome.failures] == ["(the run itself)"]
        assert str(exit_code) in outcome.failures[0].why
        assert outcome.is_hopeless is is_hopeless


class TestSumUp:
    def test_rounds_are_counted_when_none_failed(self) -> None:
        assert often.sum_up([passed(1), passed(2)], 20, LOGS, say_seed) == ["2 of 20 rounds ran, none failed"]

    def test_tests_are_listed_by_how_often_and_in_which_way_they_failed(self) -> None:
        outcomes = [
            failed(1, Failure("t.py::test_rare", "KeyError: 'a'"), Failure("t.py::test_rare", "failed on teardown")),
            failed(2, Failure("t.py::test_often", "AssertionError: port 15001")),
            passed(3),
            failed(4, Failure("t.py::test_often", "TimeoutError")),
            failed(5, Failure("t.py::test_often", "AssertionError: port 17")),
        ]
        assert often.sum_up(outcomes, 5, LOGS, say_seed) == [
            "5 of 5 rounds ran, 4 failed; the logs are in .cache/often/now",
            "3 of 5  t.py::test_often",
            "    2 times: AssertionError: port 15001",
            "        round-02.log, round-05.log",
            "    1 times: TimeoutError",
            "        round-04.log",
            "1 of 5  t.py::test_rare",
            "    1 times: KeyError: 'a'",
            "        round-01.log",
            "    1 times: failed on teardown",
            "        round-01.log",
            "round-01 again: pytest --seed 1001",
        ]


def test_the_newest_runs_stay_when_old_ones_are_removed(tmp_path: Path) -> None:
    for name in ("20260101-000000", "20260301-000000", "20260201-000000"):
        (tmp_path / name).mkdir()
    often.remove_old(tmp_path.iterdir(), 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20260201-000000", "20260301-000000"]
