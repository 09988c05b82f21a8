from __future__ import annotations

import pytest

from penstock.cli import output
from penstock.cli.errors import EXPLANATIONS, CliError, ExitCode, explain, report


@pytest.mark.parametrize("name", ["_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_SSL"])
def test_exit_code_says_unreachable_when_the_connection_is_the_problem(name: str) -> None:
    assert explain(name, "Local: something").exit_code is ExitCode.UNREACHABLE


def test_subject_and_hint_are_told_when_topic_is_unknown() -> None:
    error = explain("UNKNOWN_TOPIC_OR_PART", "Broker: Unknown topic or partition", "topic orders")
    assert error.message == "topic orders: no such topic or partition"
    assert "penstock topics list" in error.hint
    assert error.name == "UNKNOWN_TOPIC_OR_PART"


def test_error_stays_one_line_when_the_subject_has_several() -> None:
    error = explain("GROUP_ID_NOT_FOUND", "", "group a\nError: b")
    assert error.message == "group a\\nError: b: no such group"


def test_own_text_is_kept_without_prefix_when_nothing_better_is_known() -> None:
    assert explain("POLICY_VIOLATION", "Broker: Too many partitions").message == "Too many partitions"
    assert explain("INVALID_GROUP_ID", "ConsumerGroupDescribe: ", "group ").message == "group : invalid group id"
    assert explain("INVALID_CONFIG", "Unknown topic config name: x").message == "Unknown topic config name: x"


def test_name_is_the_message_when_there_is_no_text() -> None:
    assert explain("STALE_BROKER_EPOCH", "").message == "stale broker epoch"


def test_every_explanation_has_something_to_add_when_listed() -> None:
    assert [name for name, explanation in EXPLANATIONS.items() if not (explanation.message or explanation.hint)] == []


def test_error_and_hint_go_to_stderr_when_reported(capsys: pytest.CaptureFixture[str]) -> None:
    report(CliError("it broke", "Mend it."))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "Error: it broke\nMend it.\n"


def test_terminal_obeys_nothing_when_an_error_or_a_note_tells_what_others_wrote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report(CliError("no column \x1b]0;owned\x07\nof orders", "there is \x9b2J\u202e"))
    output.note("columns: \x7f\ta")
    assert capsys.readouterr().err == (
        "Error: no column \\x1b]0;owned\\x07\nof orders\nthere is \\x9b2J\\u202e\ncolumns: \\x7f\ta\n"
    )
