"""Each rule finds the history that breaks it, and leaves alone the one that comes close."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.testing.history import Action, Assign, Final, Isolation, Operation, Outcome, Poll, Send
from penstock.testing.history_check import check
from penstock.testing.history_cycles import find_cycles

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN
UNCOMMITTED = Isolation.READ_UNCOMMITTED
HERE = ("t", 0)
MOVE = Assign(frozenset({HERE}))


def send(value: str, offset: int | None = None) -> Send:
    return Send(*HERE, value, offset)


def poll(start: int, values: str) -> Poll:
    """One-letter values at consecutive offsets; a blank is an offset that the poll does not have."""
    return Poll(*HERE, tuple((start + step, value) for step, value in enumerate(values) if value != " "))


class HistoryOf:
    """Operations one after the other: each is completed before the next is invoked."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def add(self, process: int, *actions: Action, outcome: Outcome = OK, **details: object) -> HistoryOf:
        times = {"invoked": 10 * len(self.operations), "completed": 10 * len(self.operations) + 5}
        operation = Operation(process, outcome, actions, **{**times, **details})  # type: ignore[arg-type]
        self.operations.append(operation)
        return self

    def kinds(self, final: Final | None = None, compacted: Sequence[str] = ()) -> set[str]:
        return set(check(self.operations, final=final, compacted=compacted).count_kinds())


def sent(values: str) -> HistoryOf:
    """Process 1 sends these, plainly, to offsets 0, 1, …; a blank leaves an offset out."""
    sends = [send(value, offset) for offset, value in enumerate(values) if value != " "]
    return HistoryOf().add(1, *sends)


# ---------------------------------------------------------------------------------------------------- contents


def test_nothing_is_found_when_all_is_in_order() -> None:
    history = sent("abc").add(2, poll(0, "ab")).add(2, poll(2, "c"))
    assert history.kinds({HERE: [(0, "a"), (1, "b"), (2, "c")]}) == set()


def test_nothing_is_found_when_there_is_nothing() -> None:
    report = check([])
    assert report.is_sound
    assert str(report) == "0 operations, 0 records sent, 0 polled: no anomaly"


def test_inconsistent_offsets_are_found_when_two_readers_disagree() -> None:
    assert "inconsistent-offsets" in sent("ab").add(2, poll(0, "a")).add(3, poll(0, "b")).kinds()


def test_inconsistent_offsets_are_found_when_a_reader_contradicts_an_acknowledgement() -> None:
    history = HistoryOf().add(1, send("a", 0)).add(1, send("b"), outcome=UNKNOWN).add(2, poll(0, "b"))
    assert "inconsistent-offsets" in history.kinds()


def test_offsets_are_consistent_when_the_same_number_is_of_another_partition() -> None:
    history = sent("a").add(1, Send("t", 1, "b", 0)).add(2, poll(0, "a"), Poll("t", 1, ((0, "b"),)))
    assert history.kinds() == set()


def test_duplicate_is_found_when_one_value_has_two_offsets() -> None:
    assert sent("a").add(2, poll(0, "a")).add(2, poll(1, "a")).kinds() == {"duplicate"}


def test_no_duplicate_is_found_when_a_value_is_read_twice_at_its_offset() -> None:
    assert sent("a").add(2, poll(0, "a")).add(3, poll(0, "a")).kinds() == set()


def test_lost_write_is_found_when_readers_went_past_what_nobody_saw() -> None:
    assert sent("abc").add(2, poll(0, "a c")).kinds() == {"lost-write", "int-poll-skip"}


def test_no_write_is_lost_when_nobody_has_read_that_far() -> None:
    assert sent("abc").add(2, poll(0, "ab")).kinds() == set()


def test_no_write_is_lost_when_a_reader_only_began_behind_it() -> None:
    assert sent("abc").add(2, poll(2, "c")).kinds() == set()


def test_lost_write_is_found_when_the_final_read_begins_behind_it() -> None:
    assert sent("abc").kinds({HERE: [(1, "b"), (2, "c")]}) == {"lost-write"}


def test_no_write_is_lost_when_its_outcome_is_unknown() -> None:
    assert sent("a c").add(1, send("b"), outcome=UNKNOWN).add(2, poll(0, "a c")).kinds() == set()


def test_lost_write_is_found_when_half_of_an_unknown_transaction_was_read() -> None:
    history = HistoryOf().add(1, send("a", 0), send("b", 1), outcome=UNKNOWN, transaction=True)
    history.add(3, send("c", 3)).add(2, poll(0, "a  c"))
    assert history.kinds() == {"lost-write", "int-poll-skip"}


def test_no_write_is_lost_when_an_unknown_transaction_was_seen_by_nobody() -> None:
    history = HistoryOf().add(1, send("a", 0), send("b", 1), outcome=UNKNOWN, transaction=True)
    assert history.add(3, send("c", 3)).add(2, poll(3, "c")).kinds({HERE: [(3, "c")]}) == set()


def test_lost_write_is_found_when_what_was_read_is_gone_from_the_final_read() -> None:
    assert sent("ab").add(2, poll(0, "ab")).kinds({HERE: [(0, "a")]}) == {"lost-write"}


def test_unseen_is_found_when_the_last_acknowledged_send_is_never_read() -> None:
    assert sent("ab").kinds({HERE: [(0, "a")]}) == {"unseen"}


def test_unseen_is_found_when_a_committed_send_has_no_known_offset() -> None:
    assert HistoryOf().add(1, send("a"), transaction=True).kinds({HERE: []}) == {"unseen"}


def test_nothing_is_unseen_when_there_was_no_final_read_of_the_partition() -> None:
    assert sent("ab").add(2, poll(0, "a")).kinds({("t", 1): []}) == set()


def test_nothing_is_lost_skipped_or_unseen_when_the_topic_is_compacted() -> None:
    history = sent("abcd").add(2, poll(0, "a c"))
    assert history.kinds({HERE: [(2, "c")]}, compacted=["t"]) == set()


# ---------------------------------------------------------------------------------------------------- sends


def test_nonmonotonic_send_is_found_when_a_later_send_has_a_lower_offset() -> None:
    assert HistoryOf().add(1, send("a", 5)).add(1, send("b", 4)).kinds() == {"nonmonotonic-send"}


def test_nonmonotonic_send_is_found_when_only_readers_know_the_offset() -> None:
    history = HistoryOf().add(1, send("a", 5)).add(1, send("b"), outcome=UNKNOWN).add(2, poll(4, "ba"))
    assert history.kinds() == {"nonmonotonic-send"}


def test_sends_are_in_order_when_two_processes_interleave() -> None:
    assert HistoryOf().add(1, send("a", 5)).add(2, send("b", 4)).add(1, send("c", 6)).kinds() == set()


def test_sends_are_in_order_when_one_was_late_after_an_unknown_outcome() -> None:
    history = HistoryOf().add(1, send("a"), outcome=UNKNOWN).add(1, send("b", 4))
    assert history.add(2, poll(4, "ba")).kinds() == set()


def test_internal_nonmonotonic_send_is_found_when_one_operation_sends_backwards() -> None:
    assert HistoryOf().add(1, send("a", 5), send("b", 4)).kinds() == {"int-nonmonotonic-send"}


def test_sends_of_one_operation_are_in_order_when_others_lie_between() -> None:
    history = HistoryOf().add(1, send("a", 0), send("c", 2), transaction=True).add(2, send("b", 1))
    assert history.kinds() == set()


# ---------------------------------------------------------------------------------------------------- polls


def test_nonmonotonic_poll_is_found_when_a_process_reads_again_without_moving() -> None:
    assert sent("ab").add(2, poll(0, "ab")).add(2, poll(1, "b")).kinds() == {"nonmonotonic-poll"}


def test_polls_are_in_order_when_the_process_moved() -> None:
    assert sent("ab").add(2, poll(0, "ab")).add(2, MOVE).add(2, poll(0, "ab")).kinds() == set()


def test_polls_are_in_order_when_the_transaction_that_polled_was_aborted() -> None:
    history = sent("ab").add(2, poll(0, "ab"), outcome=FAILED, transaction=True).add(2, poll(0, "ab"))
    assert history.kinds() == set()


def test_internal_nonmonotonic_poll_is_found_when_one_operation_reads_backwards() -> None:
    assert sent("ab").add(2, poll(1, "b"), poll(0, "a")).kinds() == {"int-nonmonotonic-poll"}


def test_polls_of_one_operation_are_in_order_when_it_moved_between() -> None:
    assert sent("ab").add(2, poll(0, "ab"), MOVE, poll(0, "a")).kinds() == set()


def test_poll_skip_is_found_when_a_process_goes_past_a_record_that_others_read() -> None:
    assert sent("abc").add(3, poll(0, "abc")).add(2, poll(0, "a")).add(2, poll(2, "c")).kinds() == {"poll-skip"}


def test_internal_poll_skip_is_found_when_one_poll_leaves_a_record_out() -> None:
    assert sent("abc").add(3, poll(0, "abc")).add(2, poll(0, "a c")).kinds() == {"int-poll-skip"}


def test_no_poll_is_skipped_when_the_offset_between_holds_no_record() -> None:
    assert sent("a c").add(2, poll(0, "a")).add(2, poll(2, "c")).kinds() == set()


def test_no_poll_is_skipped_when_the_record_between_was_aborted() -> None:
    history = sent("a c").add(3, send("b", 1), outcome=FAILED, transaction=True)
    history.add(4, poll(0, "abc"), isolation=UNCOMMITTED)
    assert history.add(2, poll(0, "a c")).kinds() == set()


# ---------------------------------------------------------------------------------------------------- transactions


def test_aborted_read_is_found_when_it_is_read_as_committed() -> None:
    history = HistoryOf().add(1, send("a", 0), outcome=FAILED, transaction=True)
    assert history.add(2, poll(0, "a")).kinds() == {"G1a"}


def test_no_aborted_read_is_found_when_the_reader_wants_uncommitted_records() -> None:
    history = HistoryOf().add(1, send("a", 0), outcome=FAILED, transaction=True)
    assert history.add(2, poll(0, "a"), isolation=UNCOMMITTED).kinds() == set()


def test_aborted_read_is_found_when_a_failed_plain_send_is_read_by_anyone() -> None:
    history = HistoryOf().add(1, send("a"), outcome=FAILED)
    assert history.add(2, poll(0, "a"), isolation=UNCOMMITTED).kinds() == {"G1a"}


def test_no_aborted_read_is_found_when_the_outcome_is_unknown() -> None:
    history = HistoryOf().add(1, send("a"), outcome=UNKNOWN, transaction=True)
    assert history.add(2, poll(0, "a")).kinds() == set()


@pytest.mark.parametrize(("completed", "expected"), [(49, {"precommitted-read"}), (51, set())])
def test_precommitted_read_is_judged_by_when_the_commit_was_asked_for(completed: int, expected: set[str]) -> None:
    history = HistoryOf().add(1, send("a", 0), transaction=True, invoked=0, committing=50, completed=90)
    assert history.add(2, poll(0, "a"), invoked=40, completed=completed).kinds() == expected


def test_no_precommitted_read_is_found_when_the_reader_wants_uncommitted_records() -> None:
    history = HistoryOf().add(1, send("a", 0), transaction=True, invoked=0, committing=50, completed=90)
    assert history.add(2, poll(0, "a"), invoked=40, completed=45, isolation=UNCOMMITTED).kinds() == set()


def test_precommitted_read_is_found_when_a_transaction_reads_its_own_send() -> None:
    assert HistoryOf().add(1, send("a", 0), poll(0, "a"), transaction=True).kinds() == {"precommitted-read"}


def test_circle_is_found_when_two_transactions_read_each_other() -> None:
    history = HistoryOf().add(1, send("a", 0), Poll("u", 0, ((0, "b"),)), transaction=True, completed=99)
    history.add(2, Send("u", 0, "b", 0), poll(0, "a"), transaction=True, completed=99)
    assert history.kinds() == {"G1c"}


def test_no_circle_is_found_when_one_transaction_reads_the_other() -> None:
    history = HistoryOf().add(1, send("a", 0), transaction=True)
    assert history.add(2, Send("u", 0, "b", 0), poll(0, "a"), transaction=True).kinds() == set()


def test_garbage_is_found_when_nobody_sent_what_was_read() -> None:
    assert sent("a").add(2, poll(0, "az")).kinds() == {"garbage-read"}


def test_no_garbage_is_found_when_the_history_does_not_write_the_partition() -> None:
    assert HistoryOf().add(2, poll(0, "az")).kinds() == set()


def test_error_is_raised_when_a_value_is_sent_twice() -> None:
    with pytest.raises(ValueError, match="'a' was sent twice to t-0"):
        check(sent("aa").operations)


def test_report_names_kinds_and_the_first_anomaly_when_there_are_many() -> None:
    report = check(sent("abc").add(2, poll(0, "a c")).operations)
    assert not report.is_sound
    assert str(report) == (
        "2 operations, 3 records sent, 2 polled: 1 int-poll-skip, 1 lost-write; "
        "first: int-poll-skip: t-0: process 2 went from offset 0 to 2 past 1"
    )


def test_cycles_are_found_when_they_are_long_and_when_there_are_several() -> None:
    long = {node: [node + 1] for node in range(50_000)} | {50_000: [0]}
    assert [len(cycle) for cycle in find_cycles(long)] == [50_001]
    assert find_cycles({1: {2}, 2: {1, 3}, 3: {4}, 4: {3}, 5: {1, 5}}) == [[3, 4], [1, 2]]
    assert find_cycles({1: {2, 3}, 2: {3}, 3: set()}) == []
