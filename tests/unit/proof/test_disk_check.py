"""The disk rounds must find what they look for."""

from __future__ import annotations

import pytest

from penstock.protocol.records import Record
from penstock.testing.history import Commit, Outcome, Where
from proof.disk.check import PartitionView, judge_history, note_served
from proof.disk.clients import History, Sent, Transaction

HERE, COMPACTED = ("plain", 0), ("compacted", 0)
GROUP = "transactional-group"


def sent(number: int, outcome: Outcome = Outcome.OK, *, where: Where = HERE, producer: str = "plain") -> Sent:
    offset = number if outcome is Outcome.OK and producer == "plain" else None
    return Sent(producer, where, value(number, producer), outcome=outcome, offset=offset)


def value(number: int, producer: str = "plain") -> bytes:
    return f"{producer}/{number}/".encode()


def kinds(
    history: History, final: list[tuple[int, bytes]], *, where: Where = HERE, offset: int = -1, start: int = 0
) -> list[str]:
    committed = {(GROUP, HERE): offset}
    anomalies = judge_history(history, {where: final}, committed, COMPACTED[0], {where: start})
    return [anomaly.kind for anomaly in anomalies]


ALL = [(number, value(number)) for number in range(4)]
THREE = History(sent=[sent(0), sent(1), sent(2), sent(3, Outcome.UNKNOWN)])


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        pytest.param(ALL, [], id="everything"),
        pytest.param(ALL[:3], [], id="without what was never acknowledged"),
        pytest.param([ALL[0], ALL[2]], ["int-poll-skip", "lost-write"], id="lost"),
        pytest.param(ALL[:2], ["unseen"], id="lost at the end"),
        pytest.param([*ALL, (4, value(1))], ["duplicate"], id="twice"),
        pytest.param([*ALL, (4, b"plain/9/")], ["garbage-read"], id="written by nobody"),
        pytest.param([*ALL[:3], (3, b"?")], ["garbage-read"], id="damaged"),
    ],
)
def test_record_is_judged_by_what_was_acknowledged_when_a_disk_has_failed(
    final: list[tuple[int, bytes]], expected: list[str]
) -> None:
    assert kinds(THREE, final) == expected


def test_other_place_is_found_when_a_record_moved() -> None:
    assert set(kinds(THREE, [(0, value(0)), (1, value(2)), (2, value(1))])) >= {"inconsistent-offsets", "reordered"}


def test_order_is_judged_when_nothing_was_acknowledged() -> None:
    history = History(sent=[sent(number, Outcome.UNKNOWN) for number in range(2)])
    assert kinds(history, [(0, value(1)), (1, value(0))]) == ["reordered"]


def test_record_must_be_somewhere_when_it_was_acknowledged_as_a_copy() -> None:
    history = History(sent=[Sent("idempotent", HERE, value(0), outcome=Outcome.OK)])
    assert kinds(history, [(5, value(0))]) == []
    assert kinds(history, []) == ["unseen"]


def test_record_may_be_gone_when_retention_or_compaction_took_it() -> None:
    assert kinds(THREE, ALL[2:], start=2) == []
    assert kinds(THREE, ALL[2:]) == ["lost-write", "lost-write"]
    history = History(sent=[sent(number, where=COMPACTED) for number in range(2)])
    assert kinds(history, [(1, value(1))], where=COMPACTED) == []


def test_change_is_found_when_another_record_was_served_before() -> None:
    history = History(sent=[sent(0, Outcome.UNKNOWN), sent(1, Outcome.UNKNOWN)])
    note_served(PartitionView(HERE, records=[Record(None, value(1), (), 0, offset=0)]), history)
    assert "inconsistent-offsets" in kinds(history, [(0, value(0)), (1, value(1))])


@pytest.mark.parametrize(
    ("outcome", "visible", "offset", "expected"),
    [
        pytest.param(Outcome.OK, 2, 7, [], id="committed and whole"),
        pytest.param(Outcome.OK, 1, 7, ["unseen"], id="committed and lost in part"),
        pytest.param(Outcome.OK, 2, -1, ["lost-commit"], id="without its offset"),
        pytest.param(Outcome.FAILED, 0, -1, [], id="aborted and invisible"),
        pytest.param(Outcome.FAILED, 1, -1, ["G1a"], id="aborted and visible"),
        pytest.param(Outcome.FAILED, 0, 7, ["garbage-commit"], id="the offset of an aborted one"),
        pytest.param(Outcome.UNKNOWN, 0, -1, [], id="unknown and invisible"),
        pytest.param(Outcome.UNKNOWN, 2, 7, [], id="unknown and whole"),
        pytest.param(Outcome.UNKNOWN, 1, 7, ["unseen"], id="unknown and visible in part"),
        pytest.param(Outcome.UNKNOWN, 0, 7, ["garbage-commit"], id="unknown and invisible, with its offset"),
    ],
)
def test_transaction_is_whole_or_invisible_when_a_disk_has_failed(
    outcome: Outcome, visible: int, offset: int, expected: list[str]
) -> None:
    records = [sent(number, Outcome.UNKNOWN, producer="transactional") for number in range(2)]
    history = History(transactions=[Transaction("transactional", records, outcome, Commit(GROUP, *HERE, 7))])
    final = [(number, value(number, "transactional")) for number in range(visible)]
    assert kinds(history, final, offset=offset) == expected


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        pytest.param([(0, b"a=0"), (1, b"b=1"), (2, b"a=2")], [], id="everything"),
        pytest.param([(1, b"b=1"), (2, b"a=2")], [], id="the latest"),
        pytest.param([(1, b"b=1"), (3, b"a=3")], [], id="a later one of unknown outcome"),
        pytest.param([(0, b"a=0"), (1, b"b=1")], ["stale-key"], id="an older one"),
        pytest.param([(1, b"b=1")], ["lost-key"], id="none"),
        pytest.param([(1, b"b=1"), (2, b"a=2"), (5, b"a=2")], ["duplicate"], id="twice the same"),
        pytest.param([(1, b"b=1"), (2, b"a=2"), (5, b"b=3")], ["garbage-read"], id="one that nobody wrote"),
    ],
)
def test_compacted_partition_is_judged_by_the_latest_record_when_a_disk_has_failed(
    final: list[tuple[int, bytes]], expected: list[str]
) -> None:
    history = History(
        sent=[
            Sent("plain", COMPACTED, b"0", b"a", Outcome.OK, 0),
            Sent("plain", COMPACTED, b"1", b"b", Outcome.OK, 1),
            Sent("plain", COMPACTED, b"2", b"a", Outcome.OK, 2),
            Sent("plain", COMPACTED, b"3", b"a", Outcome.UNKNOWN),
        ]
    )
    assert kinds(history, final, where=COMPACTED) == expected
