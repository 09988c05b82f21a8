"""A program that takes part in rounds of kills says when it is ready, begins when told, and ends with its input."""

from __future__ import annotations

import sys

import pytest

from apache_kafka.kills import ProgramApplications
from proof.kills.journal import Journal

READY = "print('ready', flush=True)\n"
NAME = "Java makes a topic"


def program(text: str, journal: Journal) -> ProgramApplications:
    return ProgramApplications("Java", [sys.executable, "-c", f"import sys\n{text}"], journal)


def test_nothing_begins_before_the_line_that_says_so_when_the_program_is_ready() -> None:
    journal = Journal()
    applications = program(
        READY
        + "print('done=makes a topic=' + ('1500' if sys.stdin.readline() == 'begin\\n' else '0'))\n"
        + "sys.stdin.read()\n"
        + "print('error=makes a topic=A')\n",
        journal,
    )
    applications.get_ready()
    applications.start()
    applications.end()
    applications.finish()
    assert [wait.seconds for wait in journal.waits[NAME]] == [1.5]
    assert journal.errors[NAME] == {"A": 1}
    assert journal.unfinished == []


def test_the_start_is_no_part_of_a_wait_when_a_program_takes_long_to_get_ready() -> None:
    now = 100.0
    journal = Journal(lambda: now)
    applications = program(READY + "sys.stdin.readline()\nprint('done=makes a topic=10')\n", journal)
    applications.get_ready()
    now += 1.0
    journal.note_kill()
    applications.start()
    applications.end()
    applications.finish()
    assert journal.waits[NAME][0].after_kill_s == pytest.approx(-0.01)


def test_it_is_said_what_came_instead_when_a_program_does_not_get_ready() -> None:
    applications = program("print('error=makes a topic=A')", Journal())
    with pytest.raises(AssertionError, match="the program in Java said 'error=makes a topic=A"):
        applications.get_ready()
