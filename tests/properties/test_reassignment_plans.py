"""What every plan of moves has: valid, even, in different racks, with as few moves as possible, always the same."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.plans.assignments import Assignment, Replicas
from penstock.cli.plans.spread import Wish, changed_only, plan_spread
from penstock.core.types import TopicPartition

NODES = range(1, 7)

# Small clusters: mistakes show soon.
few = settings(max_examples=60)


@st.composite
def assignments(draw: st.DrawFn, most: int = 12, nodes: range = NODES, factor: int | None = None) -> Assignment:
    count = draw(st.integers(1, most))
    assignment = {}
    for number in range(count):
        key = TopicPartition(draw(st.sampled_from("abc")), number)
        size = factor or draw(st.integers(1, 3))
        assignment[key] = tuple(draw(st.permutations(list(nodes)))[:size])
    return assignment


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    """Never too few brokers. Racks of any size, or none."""
    nodes = sorted(draw(st.sets(st.integers(1, 8), min_size=3)))
    racks = {node: draw(st.sampled_from(["x", "y", "z", "u"])) for node in nodes}
    has_racks = draw(st.booleans())
    return Wish(
        {node: racks[node] if has_racks else None for node in nodes},
        draw(st.none() | st.integers(1, 3)),
        draw(st.booleans()),
    )


def loads(assignment: Assignment, wish: Wish) -> dict[int, int]:
    counts = Counter(node for replicas in assignment.values() for node in replicas)
    return {node: counts[node] for node in wish.brokers}


def spread_of(numbers: dict[int, int]) -> int:
    return max(numbers.values()) - min(numbers.values())


def moved(before: Assignment, after: Assignment) -> int:
    return sum(len(set(after[key]) - set(before[key])) for key in before)


@few
@given(current=assignments(), wish=wishes())
def test_plan_is_valid_and_stays_when_it_is_planned_again(current: Assignment, wish: Wish) -> None:
    planned = plan_spread(current, wish)
    assert planned.keys() == current.keys()
    for key, replicas in planned.items():
        assert len(replicas) == len(set(replicas)) == (wish.factor or len(current[key]))
        assert set(replicas) <= set(wish.brokers)
    assert changed_only(planned, plan_spread(planned, wish)) == {}


@few
@given(current=assignments(), wish=wishes(), data=st.data())
def test_plan_is_the_same_when_partitions_and_brokers_come_in_another_order(
    current: Assignment, wish: Wish, data: st.DataObject
) -> None:
    shuffled = dict(data.draw(st.permutations(list(current.items()))))
    brokers = dict(data.draw(st.permutations(list(wish.brokers.items()))))
    assert plan_spread(shuffled, wish._replace(brokers=brokers)) == plan_spread(current, wish)


@few
@given(current=assignments(), wish=wishes())
def test_brokers_have_the_same_number_of_replicas_when_racks_do_not_count(current: Assignment, wish: Wish) -> None:
    brokers = dict.fromkeys(wish.brokers)
    planned = plan_spread(current, Wish(brokers, wish.factor))
    assert spread_of(loads(planned, wish)) <= 1


@few
@given(current=assignments(), wish=wishes())
def test_replicas_are_in_as_many_racks_as_there_are_when_brokers_have_racks(current: Assignment, wish: Wish) -> None:
    racks = {node: rack or "only" for node, rack in wish.brokers.items()}
    planned = plan_spread(current, Wish(racks, wish.factor))
    for replicas in planned.values():
        assert len({racks[node] for node in replicas}) == min(len(replicas), len(set(racks.values())))


@few
@given(current=assignments(), wish=wishes())
def test_racks_of_the_same_size_do_not_stand_in_the_way_when_replicas_are_spread(
    current: Assignment, wish: Wish
) -> None:
    racks: dict[int, str | None] = {1: "x", 2: "y", 3: "z", 4: "x", 5: "y", 6: "z"}
    planned = plan_spread(current, Wish(racks, wish.factor))
    assert spread_of(loads(planned, Wish(racks))) <= 1


@few
@given(current=assignments(), wish=wishes())
def test_no_handover_makes_leaders_more_even_when_the_plan_is_made(current: Assignment, wish: Wish) -> None:
    planned = plan_spread(current, wish._replace(is_balanced=True))
    leads = Counter(replicas[0] for replicas in planned.values())
    for replicas in planned.values():
        assert all(leads[replicas[0]] - leads[node] <= 1 for node in replicas[1:])


@few
@given(current=assignments(factor=3), wish=wishes())
def test_leaders_are_even_when_every_broker_has_every_partition(current: Assignment, wish: Wish) -> None:
    nodes = sorted(wish.brokers)[:3]
    planned = plan_spread(current, Wish(dict.fromkeys(nodes)))
    leads = Counter(replicas[0] for replicas in planned.values())
    assert spread_of({node: leads[node] for node in nodes}) <= 1


@few
@given(current=assignments(), more=st.integers(0, 3))
def test_only_the_surplus_moves_when_brokers_are_added(current: Assignment, more: int) -> None:
    wish = Wish(dict.fromkeys(range(1, 7 + more)))
    planned = plan_spread(current, wish)
    before = sorted(loads(current, wish).values(), reverse=True)
    share, rest = divmod(sum(before), len(before))
    # Those that have most may keep one more than the others.
    surplus = sum(max(0, load - share - (place < rest)) for place, load in enumerate(before))
    assert moved(current, planned) == surplus


@few
@given(current=assignments(most=3, nodes=range(1, 6), factor=2), drained=st.integers(1, 5))
def test_no_even_plan_moves_less_when_a_broker_is_drained(current: Assignment, drained: int) -> None:
    nodes = [node for node in range(1, 6) if node != drained]
    wish = Wish(dict.fromkeys(nodes))
    planned = plan_spread(current, wish)
    choices = product(combinations(nodes, 2), repeat=len(current))
    everything = (dict(zip(current, choice, strict=True)) for choice in choices)
    least = min(moved(current, each) for each in everything if spread_of(loads(each, wish)) <= 1)
    assert moved(current, planned) == least


@few
@given(current=assignments(), wish=wishes())
def test_what_can_stay_stays_when_only_a_drain_or_another_factor_is_asked_for(current: Assignment, wish: Wish) -> None:
    planned = plan_spread(current, wish._replace(is_balanced=False))
    for key, replicas in planned.items():
        stayed = [node for node in current[key] if node in wish.brokers]
        kept = [node for node in replicas if node in current[key]]
        assert len(kept) == min(len(stayed), len(replicas))
        if current[key][0] in wish.brokers:
            assert replicas[0] == current[key][0]


def test_thousand_partitions_are_planned_quickly_enough_to_be_tested() -> None:
    """The shape of a real cluster: six brokers become seven."""
    current = {
        TopicPartition(f"t{topic}", number): _ring(topic + number) for topic in range(20) for number in range(50)
    }
    wish = Wish({node: "xyz"[node % 3] for node in range(9)})
    planned = plan_spread(current, wish)
    assert spread_of(loads(planned, wish)) <= 1
    assert moved(current, planned) == 999
    on_new = Counter(key.topic for key, replicas in planned.items() for node in replicas if node >= 6)
    assert len(on_new) == 20  # each topic has got something of the new brokers
    leads = Counter(replicas[0] for replicas in planned.values())
    assert spread_of({node: leads[node] for node in wish.brokers}) <= 1


def _ring(number: int) -> Replicas:
    return tuple((number + step) % 6 for step in range(3))
