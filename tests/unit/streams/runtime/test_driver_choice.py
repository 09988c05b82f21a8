"""Which driver runs an application, by what the members of its group tell."""

from __future__ import annotations

import pytest

from penstock.streams.runtime.driver_choice import Assignment, Driver, UnreadableError, decide_holder

OLD = Driver("one", 11, since_ms=1_000, checkpoint="/a")
NEW = Driver("two", 22, since_ms=2_000)


def chosen(**members: Driver | bytes) -> str | None:
    told = {name: data if isinstance(data, bytes) else data.encode() for name, data in members.items()}
    decided = decide_holder(told)
    return None if decided is None else decided.holder_id


def test_holder_stays_when_another_driver_joins() -> None:
    assert chosen(a=NEW.holding(True), b=OLD) == "a"


def test_driver_that_was_started_first_is_chosen_when_none_or_several_hold() -> None:
    assert chosen(a=NEW, b=OLD) == "b"
    assert chosen(a=NEW.holding(True), b=OLD.holding(True)) == "b"
    assert chosen(b=OLD, a=OLD) == "a"  # everybody decides the same


def test_member_is_never_chosen_when_nobody_understands_it() -> None:
    strange = [b"", b"[]", b"{}", b'{"host":"h","pid":true,"since":1}', b'{"host":1,"pid":1,"since":1}', b"\xff"]
    for data in strange:
        assert chosen(a=data, b=NEW) == "b"
        assert chosen(a=data) is None


def test_drivers_are_told_who_runs_when_one_is_chosen() -> None:
    decided = decide_holder({"a": OLD.holding(True).encode()})
    assert decided is not None
    assert Assignment.decode(decided.encode()) == Assignment("a", OLD)
    assert str(OLD) == "process 11 on one, since 1970-01-01 00:00:01 UTC, with the checkpoint /a"
    assert str(Driver("one", 1, since_ms=10**18)) == f"process 1 on one, since {10**18}"
    for data in (b"", b"{}", b'{"member":"a"}', b'{"member":"a","driver":[]}'):
        with pytest.raises(UnreadableError):
            Assignment.decode(data)
