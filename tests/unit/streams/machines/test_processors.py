"""Classes of people's, without Spark."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from penstock.streams.machines.machine import MachineRecord, TimeMode
from penstock.streams.machines.memory import MemoryRun, run_once
from penstock.streams.machines.processor_states import StateNames
from penstock.streams.machines.processors import (
    ProcessMachine,
    Processor,
    list_state,
    map_state,
    time_mode_of,
    value_state,
)
from penstock.streams.machines.values import ValueReader, write
from penstock.streams.topology.errors import StreamsError

ROW = {"type": "struct", "fields": [{"name": "n", "type": "long"}]}


def row(n: int | None, at_ms: int = 0, offset: int = 0) -> MachineRecord:
    return MachineRecord(0, at_ms * 1000, 0, offset, None if n is None else json.dumps({"n": n}))


def machine(processor: type[Processor], **names: StateNames) -> ProcessMachine:
    return ProcessMachine(processor, ("n",), names, ValueReader("string"), ValueReader(ROW))


class Counting(Processor):
    columns = "n bigint"
    seen = value_state("n bigint, at timestamp")

    def process(self, key: Any, row: Any, context: Any) -> Any:
        before = self.seen.get() or {"n": 0}
        self.seen.put(n=before["n"] + row["n"], at=context.time)
        return {"n": before["n"] + row["n"]}


def test_a_state_is_of_the_key_and_lasts() -> None:
    run = MemoryRun(machine(Counting, seen=StateNames(("n", "at"))))
    made = run.batch([('"a"', row(1)), ('"b"', row(5)), ('"a"', row(2, offset=1))])
    assert made == [
        ('"a"', 0, 0, 0, '{"n":1}'),
        ('"a"', 0, 0, 1, '{"n":3}'),
        ('"b"', 0, 0, 0, '{"n":5}'),
    ]
    assert run.batch([('"a"', row(4, 7))]) == [('"a"', 7000, 0, 0, '{"n":7}')]


class Quiet(Processor):
    """Says which keys were quiet for five seconds."""

    last = value_state("n bigint")

    def process(self, key: Any, row: Any, context: Any) -> Any:
        before = self.last.get()
        if before is not None:
            context.timers.cancel(datetime.fromtimestamp(before["n"] / 1000, UTC))
        rings = context.timers.after("5 seconds")
        self.last.put(n=round(rings.timestamp() * 1000))

    def on_timer(self, key: Any, at: datetime, context: Any) -> Any:
        self.last.clear()
        yield context.row({"n": at.second}, key=f"{key}!", time=at + timedelta(seconds=1))
        yield context.row(None)


def test_a_timer_rings_once_the_watermark_reaches_it_unless_it_was_cancelled() -> None:
    run = MemoryRun(machine(Quiet, last=StateNames(("n",))))
    assert run.batch([('"a"', row(1, 1000))], watermark_ms=0) == []
    assert run.batch([('"a"', row(1, 2000, 4))], watermark_ms=5999) == []
    assert run.batch([], watermark_ms=6999) == []
    assert run.batch([], watermark_ms=7000) == [
        ('"a!"', 8_000_000, 0, 4, '{"n":7}'),
        ('"a"', 7_000_000, 0, 4, None),
    ]
    assert run.batch([], watermark_ms=99_999) == []
    assert run.states['"a"'].is_empty()  # nothing is left of a key whose states are cleared and whose timers have rung


def test_timers_ring_behind_the_last_row_when_the_frame_is_a_batch() -> None:
    made = list(run_once(machine(Quiet, last=StateNames(("n",))), {'"a"': [row(1, 1000), row(1, 2000, 1)]}))
    assert [each[0] for each in made] == ['"a!"', '"a"']


class Several(Processor):
    numbers = list_state("n bigint")
    by_number = map_state("n bigint", "times bigint")

    def process(self, key: Any, row: Any, context: Any) -> Any:
        if row is None:
            self.numbers.clear()
            self.by_number.remove(1)
        else:
            self.numbers.append({"n": row["n"]})
            self.by_number.put(row["n"], times=(self.by_number.get(row["n"]) or {"times": 0})["times"] + 1)
        yield {"n": sum(each["n"] for each in self.numbers.get())}
        yield {"n": sum(each["times"] for _, each in self.by_number.items())}


def test_lists_and_maps_are_states_too_and_a_record_without_a_value_is_none() -> None:
    run = MemoryRun(machine(Several, numbers=StateNames(("n",)), by_number=StateNames(("times",), ("n",))))
    made = run.batch([('"a"', row(n, offset=at)) for at, n in enumerate((1, 1, 3, None))])
    assert [json.loads(each[-1])["n"] for each in made] == [1, 1, 2, 2, 5, 3, 0, 1]


@dataclass
class Wrong:
    m: int


class Mistaken(Processor):
    def process(self, key: Any, row: Any, context: Any) -> Any:
        return Wrong(1)


def test_a_column_that_was_not_declared_is_refused() -> None:
    with pytest.raises(StreamsError, match="does not declare: 'm'"):
        MemoryRun(machine(Mistaken)).batch([('"a"', row(1))])


def test_a_state_is_refused_outside_of_a_call_and_for_columns_that_it_lacks() -> None:
    with pytest.raises(StreamsError, match="outside of process"):
        _ = Counting().seen
    run = machine(Counting, seen=StateNames(("n",)))
    with pytest.raises(StreamsError, match="no column 'at'"):
        MemoryRun(run).batch([('"a"', row(1))])


def test_which_clock_rings_is_what_the_class_needs() -> None:
    class Mortal(Processor):
        held = value_state("n bigint", ttl="1 hour")

    class Both(Mortal):
        def on_timer(self, key: Any, at: Any, context: Any) -> Any: ...

    class ByClock(Both):
        time = "processing"

    assert [time_mode_of(each) for each in (Counting, Quiet, Mortal, ByClock)] == [
        TimeMode.NONE,
        TimeMode.EVENT,
        TimeMode.PROCESSING,
        TimeMode.PROCESSING,
    ]
    with pytest.raises(StreamsError, match="one clock for both"):
        time_mode_of(Both)


def test_what_is_written_as_json_is_read_the_same() -> None:
    kinds = {
        "at": "timestamp", "day": "date", "price": "decimal(10,2)", "bytes": "binary", "ratio": "double",
        "many": {"type": "array", "elementType": "timestamp"},
        "map": {"type": "map", "valueType": {"type": "struct", "fields": [{"name": "b", "type": "binary"}]}},
    }  # fmt: skip
    read = ValueReader({"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]})
    at = datetime(2026, 11, 17, 9, 0, 0, 5, tzinfo=UTC)
    value = {
        "at": at, "day": date(2026, 11, 17), "price": Decimal("1.10"), "bytes": b"\x00\n", "ratio": 0.1,
        "many": [at, None], "map": {"x": {"b": b"y"}},
    }  # fmt: skip
    assert "\n" not in write(value)
    assert pickle.loads(pickle.dumps(read))(write(value)) == value
    assert read('{"ratio": "NaN", "at": null}')["ratio"] != 0


def test_times_are_read_the_same_when_they_are_old_or_have_no_zone() -> None:
    read = ValueReader(
        {"type": "struct", "fields": [{"name": "at", "type": "timestamp"}, {"name": "wall", "type": "timestamp_ntz"}]}
    )
    first = {"at": datetime(1, 1, 1, tzinfo=UTC), "wall": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)}
    first["wall"] = first["wall"].replace(tzinfo=None)
    assert write(first) == '{"at":"0001-01-01T00:00:00.000000Z","wall":"1969-12-31T23:59:59.999999"}'
    assert read(write(first)) == first
    assert read('{"at":"1960-01-02T03:00:00.000000"}')["at"] == datetime(1960, 1, 2, 3, tzinfo=UTC)


class Failing(Processor):
    def process(self, key: Any, row: Any, context: Any) -> Any:
        yield {"n": 1}
        yield {"n": 1 // row["n"]}


def test_an_error_names_the_node_the_method_and_the_row_when_a_class_raises() -> None:
    with pytest.raises(
        StreamsError, match=r"process: Failing\.process failed \(key 'a', partition 0, offset 7\): Zero"
    ):
        MemoryRun(machine(Failing)).batch([('"a"', row(0, offset=7))])


class Looking(Processor):
    columns = "n bigint"

    def process(self, key: Any, row: Any, context: Any) -> Any:
        return {"n": round(context.processing_time.timestamp())}


class LookingAtTheClock(Looking):
    time = "processing"


def test_the_clock_is_the_batchs_and_refused_when_the_class_does_not_go_by_it() -> None:
    made = MemoryRun(machine(LookingAtTheClock)).batch([('"a"', row(1))], processing_ms=7000)
    assert made[0][-1] == '{"n":7}'
    with pytest.raises(StreamsError, match="only a class that goes by the clock"):
        MemoryRun(machine(Looking)).batch([('"a"', row(1))])
