"""The simulation must find what it looks for: each defect is injected into what a schedule wrote down."""

from __future__ import annotations

import pytest

from penstock.testing.history import Commit, Isolation, Outcome, Poll, Send
from proof.simulation.checks import judge_history
from proof.simulation.notebook import Notebook
from proof.simulation.plan import Mode
from proof.simulation.topics import KEYED, RECORDS, build_record, name_record, name_value
from proof.simulation.world import World

WRITER, TRANSACTIONAL, MEMBER, READER = 1, 2, 3, 4
FIRST, SECOND, KEYS = (RECORDS, 0), (RECORDS, 1), (KEYED, 0)
GROUP = "g"
SOUND = {
    FIRST: [(0, "one"), (1, "two"), (2, "in-transaction")],
    SECOND: [(0, "three")],
    KEYS: [(1, "a=new"), (2, "b=gone")],
}


@pytest.fixture
def notebook() -> Notebook:
    notes = Notebook(World())
    plain = notes.begin(WRITER, Send(*FIRST, "one"), Send(*FIRST, "two"))
    plain.number_sends(2, 0)
    notes.end(plain, Outcome.OK)
    notes.end(notes.begin(WRITER, Send(*SECOND, "three", 0)), Outcome.OK)
    keyed = notes.begin(
        WRITER,
        Send(*KEYS, "a=old", key="a"),
        Send(*KEYS, "a=new", key="a"),
        Send(*KEYS, "b=gone", key="b", is_tombstone=True),
    )
    keyed.number_sends(3, 0)
    notes.end(keyed, Outcome.OK)
    transaction = notes.begin(TRANSACTIONAL, Send(*FIRST, "in-transaction", 2), transaction=True)
    transaction.actions.append(Commit(GROUP, *SECOND, 5))
    notes.end(transaction, Outcome.OK)
    notes.end(notes.begin(TRANSACTIONAL, Send(*FIRST, "aborted", 4), transaction=True), Outcome.FAILED)
    for offset in (7, 8):
        notes.end(notes.begin(MEMBER, Commit(GROUP, *FIRST, offset)), Outcome.OK)
    notes.polled(READER, Isolation.READ_UNCOMMITTED, notes.position(), (Poll(*FIRST, ((0, "one"), (1, "two"))),))
    notes.committed_offsets = {(GROUP, FIRST): 8, (GROUP, SECOND): 5}
    return notes


def test_schedule_is_sound_when_nothing_is_wrong(notebook: Notebook) -> None:
    assert judge_history(notebook, SOUND, Mode.KILLED).is_sound
    assert judge_history(notebook, {**SOUND, KEYS: [(1, "a=new")]}, Mode.KILLED).is_sound


@pytest.mark.parametrize(
    ("where", "records", "kinds"),
    [
        pytest.param(FIRST, [SOUND[FIRST][0], SOUND[FIRST][2]], {"lost-write": 1, "int-poll-skip": 1}, id="lost"),
        pytest.param(SECOND, [], {"unseen": 1}, id="a lost record at the end"),
        pytest.param(FIRST, [*SOUND[FIRST], (6, "two")], {"duplicate": 1}, id="a record twice"),
        pytest.param(FIRST, SOUND[FIRST][:2], {"unseen": 1}, id="a transaction without its record"),
        pytest.param(FIRST, [*SOUND[FIRST], (4, "aborted")], {"G1a": 1}, id="a record of an aborted transaction"),
        pytest.param(SECOND, [(0, "three"), (1, "four")], {"garbage-read": 1}, id="a record that nobody sent"),
        pytest.param(KEYS, [(0, "a=old"), (2, "b=gone")], {"stale-key": 1}, id="an older record of a key"),
        pytest.param(KEYS, [], {"lost-key": 1}, id="a key without its record"),
        pytest.param(KEYS, [(1, "b=new")], {"garbage-read": 1, "inconsistent-offsets": 1, "lost-key": 1}, id="a key"),
    ],
)
def test_defect_is_found_when_the_log_holds_something_else(
    notebook: Notebook, where: tuple[str, int], records: list[tuple[int, str]], kinds: dict[str, int]
) -> None:
    assert judge_history(notebook, {**SOUND, where: records}, Mode.FLUSHED).count_kinds() == kinds


def test_reordering_is_found_when_records_change_places(notebook: Notebook) -> None:
    swapped = [(0, "two"), (1, "one"), (2, "in-transaction")]
    found = judge_history(notebook, {**SOUND, FIRST: swapped}, Mode.KILLED).count_kinds()
    assert set(found) == {"duplicate", "inconsistent-offsets"}


@pytest.mark.parametrize(
    ("place", "offset", "kind"),
    [
        pytest.param(FIRST, 7, "lost-commit", id="one that was replaced"),
        pytest.param(FIRST, None, "lost-commit", id="none"),
        pytest.param(FIRST, 9, "garbage-commit", id="one that nobody committed"),
        pytest.param(SECOND, None, "lost-commit", id="a transaction without its offset"),
    ],
)
def test_lost_commit_is_found_when_a_group_finds_another_offset(
    notebook: Notebook, place: tuple[str, int], offset: int | None, kind: str
) -> None:
    del notebook.committed_offsets[GROUP, place]
    if offset is not None:
        notebook.committed_offsets[GROUP, place] = offset
    assert judge_history(notebook, SOUND, Mode.KILLED).count_kinds() == {kind: 1}


def test_records_may_be_lost_and_not_doubled_or_made_up_when_the_mode_is_loose(notebook: Notebook) -> None:
    assert judge_history(notebook, {FIRST: [], SECOND: [], KEYS: []}, Mode.LOOSE).is_sound
    assert judge_history(notebook, {FIRST: [(0, "two"), (3, "aborted")]}, Mode.LOOSE).is_sound
    doubled = judge_history(notebook, {FIRST: [(0, "two"), (3, "two")]}, Mode.LOOSE)
    assert doubled.count_kinds() == {"duplicate": 1}
    made_up = judge_history(notebook, {SECOND: [(0, "nobody")]}, Mode.LOOSE)
    assert made_up.count_kinds() == {"garbage-read": 1}


def test_tombstone_has_the_name_it_was_sent_with_when_it_is_read() -> None:
    for key, is_tombstone in (("a", True), ("a", False), (None, False)):
        record = build_record(key, "value", 0, is_tombstone=is_tombstone)
        assert (record.value is None) is is_tombstone
        assert name_record(record) == name_value(key, "value")
