"""What questions want of topics. plans.json has the optimized plans that Spark 4.3 made of these questions, without
fields that nothing reads; its tables are orders and clients with (id, name, _key, _partition, _offset, _timestamp)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from penstock.pipelines.sql.pushdown import Pushdown, pushdown_of
from penstock.pipelines.tables.bounds import UNBOUNDED, Bounds, Interval

_PLANS: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("plans.json").read_text())


def _wanted(question: str, time_zone: str = "UTC") -> dict[str, Pushdown]:
    return pushdown_of(json.dumps(_PLANS[question]), time_zone)


def _micros(*when: int, zone: str = "UTC") -> int:
    moment = datetime(*when, tzinfo=ZoneInfo(zone)) - datetime(1970, 1, 1, tzinfo=UTC)  # type: ignore[arg-type,misc]
    return moment.days * 86_400_000_000 + moment.seconds * 1_000_000 + moment.microseconds


def test_all_columns_and_the_limit_are_wanted_when_a_limit_is_all_there_is() -> None:
    assert _wanted("select * from orders limit 10") == {"orders": Pushdown(None, (), 10)}


def test_only_the_column_of_the_condition_is_wanted_when_rows_are_counted() -> None:
    wanted = _wanted("select count(*) from orders where _offset >= 10")["orders"]

    assert (wanted.columns, wanted.bounds) == (frozenset({"_offset"}), Bounds(offsets=Interval(10, None)))


def test_conditions_are_wanted_and_the_limit_is_not_when_the_limit_is_above_conditions() -> None:
    wanted = _wanted("select name from orders where _partition = 1 and _offset between 5 and 10 limit 3")["orders"]

    assert wanted.bounds == Bounds(partitions=frozenset({1}), offsets=Interval(5, 11))
    assert wanted.limit is None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "America/St_Johns"])
def test_times_are_read_in_the_zone_of_the_session_when_the_plan_prints_them(zone: str) -> None:
    question = next(question for question in _PLANS if ".123456" in question)

    assert _wanted(question, zone)["orders"].bounds.timestamps_us == Interval(
        _micros(2026, 1, 1, zone=zone), _micros(2026, 1, 1, 1, 0, 0, 123456, zone=zone)
    )


@pytest.mark.parametrize(("zone", "hours"), [("+01:00", 1), ("GMT-03:30", -3.5)])
def test_times_are_read_by_an_offset_when_the_zone_is_one(zone: str, hours: float) -> None:
    question = next(question for question in _PLANS if ".123456" in question)

    start = _wanted(question, zone)["orders"].bounds.timestamps_us.start

    assert start == _micros(2026, 1, 1) - int(hours * 3_600_000_000)


def test_times_bound_nothing_when_the_zone_is_unknown() -> None:
    question = next(question for question in _PLANS if ".123456" in question)

    assert _wanted(question, "Moon/Tycho")["orders"].bounds == UNBOUNDED


def test_a_time_bounds_nothing_when_the_clock_has_it_twice() -> None:
    plan = json.dumps(_PLANS[next(question for question in _PLANS if ".123456" in question)])
    twice = plan.replace("2026-01-01 00:00:00", "2026-10-25 02:30:00").replace("2026-01-01 01", "2026-10-25 04")

    times = pushdown_of(twice, "Europe/Zurich")["orders"].bounds.timestamps_us

    assert times == Interval(None, _micros(2026, 10, 25, 4, 0, 0, 123456, zone="Europe/Zurich"))


def test_alternatives_bound_what_all_of_them_bound_when_a_condition_has_or() -> None:
    wanted = _wanted("select name from orders where _key = 'a' or _key in ('b', 'c') and 3 > _partition")["orders"]

    assert wanted.bounds == Bounds(keys=frozenset("abc"))


def test_each_topic_has_its_own_when_two_are_joined() -> None:
    wanted = _wanted("select o.name, c.name from orders o join clients c on o.id = c.id where o._offset > 10")

    assert wanted["orders"].columns == frozenset({"id", "name", "_offset"})
    assert wanted["orders"].bounds == Bounds(offsets=Interval(11, None))
    assert (wanted["clients"].columns, wanted["clients"].bounds) == (frozenset({"id", "name"}), UNBOUNDED)


def test_bounds_hold_for_both_uses_when_a_topic_is_joined_with_itself() -> None:
    question = "select a._offset from orders a join orders b on a.id = b.id and a._offset < 5 and b._offset < 7"

    wanted = _wanted(question)["orders"]

    assert (wanted.uses, wanted.columns) == (2, frozenset({"id", "_offset"}))
    assert wanted.bounds == Bounds(offsets=Interval(None, 7))


def test_a_topic_is_found_when_it_is_in_a_subquery_of_a_condition() -> None:
    question = "select id from orders where _offset > (select max(_offset) - 10 from clients where _partition = 0)"

    wanted = _wanted(question)

    assert wanted["clients"].columns == frozenset({"_offset", "_partition"})
    assert wanted["clients"].bounds == Bounds(partitions=frozenset({0}))
    assert wanted["orders"].bounds == UNBOUNDED


def test_conditions_are_about_columns_and_not_names_when_an_alias_takes_a_name_of_ours() -> None:
    question = (
        "with x as (select id, _offset as o, id as _offset from orders) select id from x where o > 5 and _offset < 3"
    )

    assert _wanted(question)["orders"].bounds == Bounds(offsets=Interval(6, None))


def test_the_limit_is_wanted_and_conditions_above_it_are_not_when_a_subquery_has_a_limit() -> None:
    wanted = _wanted("select id from (select * from orders limit 5) where _offset > 3")["orders"]

    assert (wanted.limit, wanted.bounds, wanted.columns) == (5, UNBOUNDED, frozenset({"id", "_offset"}))


def test_the_columns_of_the_window_are_wanted_when_a_window_function_needs_them() -> None:
    wanted = _wanted("select id, row_number() over (partition by name order by _offset desc) n from orders")["orders"]

    assert wanted.columns == frozenset({"id", "name", "_offset"})


def test_each_branch_has_its_own_when_topics_are_united() -> None:
    wanted = _wanted("select id from orders where _offset < 3 union all select id from clients")

    assert wanted["orders"].bounds == Bounds(offsets=Interval(None, 3))
    assert wanted["clients"] == Pushdown(frozenset({"id"}))


def test_no_limit_is_wanted_when_rows_are_sorted_first() -> None:
    wanted = _wanted("select id from orders order by _offset desc limit 10")["orders"]

    assert (wanted.limit, wanted.columns) == (None, frozenset({"id", "_offset"}))


def test_all_columns_are_wanted_when_a_node_is_not_known() -> None:
    plan = json.dumps(_PLANS["select count(*) from orders where _offset >= 10"]).replace(
        "logical.Project", "logical.New"
    )

    assert pushdown_of(plan)["orders"].columns is None


def test_nothing_is_wanted_when_the_function_is_not_a_marker() -> None:
    plan = json.dumps(_PLANS["select * from orders limit 10"]).replace("marker:orders", "topic:orders")

    assert pushdown_of(plan) == {}


def test_a_plan_is_read_when_its_condition_is_a_long_chain() -> None:
    plan = json.loads(json.dumps(_PLANS["select count(*) from orders where _offset >= 10"]))
    found = next(node for node in plan if node["class"].endswith(".Filter"))
    either = {"class": "org.apache.spark.sql.catalyst.expressions.Or", "num-children": 2, "left": 0, "right": 1}
    found["condition"] = [node for _ in range(3000) for node in (either, *found["condition"])] + found["condition"]

    assert pushdown_of(json.dumps(plan))["orders"].bounds == Bounds(offsets=Interval(10, None))
