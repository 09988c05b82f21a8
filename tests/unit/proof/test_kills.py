"""The rounds of kills must tell what applications saw, and find where they fare worse than elsewhere."""

from __future__ import annotations

from proof.kills.applications import Application
from proof.kills.journal import Journal, find_worse
from proof.kills.rounds import KillReport

NAME = "librdkafka makes a topic"


def journal_of(*waits_s: float, errors: str = "") -> Journal:
    now = 100.0
    journal = Journal(lambda: now)
    journal.note_kill()
    for wait_s in waits_s:
        now += wait_s
        journal.note_wait(NAME, wait_s)
    for kind in errors.split():
        journal.note_error(NAME, kind)
    return journal


def test_nothing_is_worse_when_errors_and_waits_are_those_of_the_other() -> None:
    assert find_worse(journal_of(3.0, 14.9, errors="A A"), journal_of(10.0, errors="A B")) == []


def test_an_error_is_worse_when_the_other_does_not_have_it() -> None:
    assert find_worse(journal_of(1.0, errors="A B B"), journal_of(1.0, errors="A")) == [f"{NAME} saw B, 2 times"]


def test_an_error_is_not_worse_when_the_kill_itself_makes_it() -> None:
    assert find_worse(journal_of(1.0, errors="_TRANSPORT"), journal_of(1.0)) == []


def test_the_second_answer_to_a_repeated_request_is_not_worse_when_it_comes_soon_after_a_kill() -> None:
    now = 100.0
    ours = Journal(lambda: now)
    ours.note_wait(NAME, 1.0)
    ours.note_kill()
    now += 2.0
    ours.note_error(NAME, "UnknownTopicOrPartitionException")
    assert find_worse(ours, journal_of(1.0)) == []
    now += 10.0
    ours.note_error(NAME, "UnknownTopicOrPartitionException")
    assert find_worse(ours, journal_of(1.0)) == [f"{NAME} saw UnknownTopicOrPartitionException, 1 times"]
    reader = Journal(lambda: now)
    reader.note_kill()
    reader.note_wait("Java reads in a new group", 1.0)
    reader.note_error("Java reads in a new group", "UnknownTopicOrPartitionException")
    assert len(find_worse(reader, Journal())) == 1


def test_an_application_that_was_never_done_is_worse_whatever_the_other_did() -> None:
    assert find_worse(journal_of(errors="_TRANSPORT"), journal_of(errors="_TRANSPORT")) == [f"{NAME}: not done once"]


def test_a_wait_is_worse_when_it_is_more_than_half_as_long_again() -> None:
    assert find_worse(journal_of(1.0, 15.1), journal_of(10.0)) == [f"{NAME} waited 15.1 s, and 10.0 s there"]


def test_waits_are_compared_by_library_in_few_kills_and_by_application_in_many() -> None:
    theirs = journal_of(1.5)
    theirs.waits["librdkafka reads in a new group"] = journal_of(13.5).waits[NAME]
    theirs.waits["Java makes a topic"] = journal_of(100.0).waits[NAME]
    assert find_worse(journal_of(3.8), theirs) == []
    assert find_worse(journal_of(20.3), theirs) == [f"{NAME} waited 20.3 s, and 13.5 s there"]
    for _ in range(10):
        theirs.note_kill()
    assert find_worse(journal_of(3.8), theirs) == [f"{NAME} waited 3.8 s, and 1.5 s there"]


def test_a_short_wait_is_not_worse_however_short_the_other_is() -> None:
    assert find_worse(journal_of(0.9), journal_of(0.1)) == []


def test_an_application_that_hangs_is_worse() -> None:
    ours = journal_of(1.0)
    ours.unfinished.append(NAME)
    assert find_worse(ours, journal_of(1.0)) == [f"not done at the end: {NAME}"]
    assert not KillReport(7, "Penstock", 1, ours).is_sound


def test_the_report_names_the_slowest_waits_with_their_distance_from_the_kill() -> None:
    report = KillReport(7, "Penstock", 1, journal_of(2.0, 1.0, 4.0, 3.0, errors="A"))
    assert str(report) == (
        "kill rounds: seed=7 on Penstock, kills=1\n"
        f"  {NAME}: 4 done, slowest 4.0 s, begun 3.0 s after a kill; 3.0 s, begun 7.0 s after a kill; "
        "2.0 s, begun 0.0 s after a kill; errors: A 1"
    )
    assert report.is_sound


def test_an_error_has_a_name_when_a_time_ran_out_and_the_library_says_nothing() -> None:
    journal = Journal()

    def begin() -> None:
        application.end()
        raise TimeoutError

    application = Application(NAME, journal, begin)
    application.run()
    assert journal.errors[NAME] == {"no end within 60 s": 1}


def test_a_report_is_not_sound_when_nobody_got_anywhere() -> None:
    assert not KillReport(7, "Penstock", 1, journal_of(errors="A")).is_sound
