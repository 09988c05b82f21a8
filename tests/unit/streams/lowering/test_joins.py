"""What a join decides without Spark."""

from __future__ import annotations

from penstock.streams.lowering.joins import join_delay_ms, joined_names
from penstock.streams.topology.windows import JoinWindow


def test_columns_of_the_right_get_another_name_when_the_left_has_theirs() -> None:
    assert joined_names(["id", "Name"], ["id", "name", "city"]) == ["id_right", "name_right", "city"]


def test_names_stay_unique_when_the_left_has_such_a_name_already() -> None:
    assert joined_names(["id", "id_right"], ["id"]) == ["id_right_"]
    assert joined_names([], ["_key"]) == ["_key_"]


def test_a_row_is_taken_when_its_own_window_is_open() -> None:
    assert join_delay_ms(JoinWindow(before_ms=1000, after_ms=5000), 10) == 5010
    assert join_delay_ms(JoinWindow(before_ms=7000, after_ms=-5000), 0) == 7000
