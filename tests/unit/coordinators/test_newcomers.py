"""Members that were not heard of again: who has to go when there are too many."""

from __future__ import annotations

from penstock.coordinators.newcomers import BYTES_EACH, Newcomer, NewcomerBounds, Newcomers

BOUNDS = NewcomerBounds(of_client=2, of_group=3, of_all=4)
SMALL = 100


def newcomers(*joins: tuple[str, str, str]) -> Newcomers[str]:
    """(key, client, group), the oldest first."""
    found: Newcomers[str] = Newcomers(BOUNDS)
    for key, client, group in joins:
        found.add(key, Newcomer(client, group, SMALL))
    return found


def dropped(found: Newcomers[str]) -> list[str]:
    keys = []
    while (dispensable := found.find_dispensable()) is not None:
        keys.append(dispensable.key)
        found.remove(dispensable)
    return keys


def test_nobody_goes_when_there_is_room_for_all() -> None:
    assert dropped(newcomers(("1", "a", "g"), ("2", "a", "g"), ("3", "b", "g"), ("4", "b", "h"))) == []


def test_the_oldest_of_a_client_goes_when_the_client_has_too_many_and_nobody_elses() -> None:
    assert dropped(newcomers(("1", "b", "g"), ("2", "a", "g"), ("3", "a", "h"), ("4", "a", "i"))) == ["2"]


def test_the_oldest_of_a_group_goes_when_the_group_has_too_many() -> None:
    assert dropped(newcomers(("0", "d", "h"), ("1", "b", "g"), ("2", "a", "g"), ("3", "a", "g"), ("4", "c", "g"))) == [
        "1"
    ]


def test_the_oldest_of_all_goes_when_there_are_too_many_of_many_clients_in_many_groups() -> None:
    assert dropped(newcomers(*((str(each), f"c{each}", f"g{each}") for each in range(6)))) == ["0", "1"]


def test_room_is_made_for_bytes_as_well_and_one_alone_stays_however_large_it_is() -> None:
    found = newcomers(("small", "a", "g"))
    found.add("large", Newcomer("b", "h", 10 * BYTES_EACH))
    assert dropped(found) == ["small"]
    assert (len(found), found.size) == (1, 10 * BYTES_EACH)


def test_nothing_is_left_when_all_were_heard_of() -> None:
    found: Newcomers[str] = Newcomers(BOUNDS)
    for arrival in [found.add(key, Newcomer("a", "g", SMALL)) for key in ("1", "2")]:
        found.remove(arrival)
    assert (len(found), found.size, found.find_dispensable()) == (0, 0, None)
    assert vars(found)["_clients"] == vars(found)["_groups"] == {}
