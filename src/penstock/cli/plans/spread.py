"""Where replicas should be: on the wanted brokers, evenly, in different racks, and with as few moves as possible. Pure.

In this order:
1. A partition has as many replicas as it had, or as many as are asked for, each on another of the wanted brokers.
2. Its replicas are in as many racks as there are. Where a broker has no rack, racks do not count.
3. Brokers have the same number of replicas, give or take one, where 2 allows it.
4. As few replicas move as possible.
5. Brokers are the first replica of the same number of partitions, give or take one, where 3 allows it. The first
   replica is the preferred leader. Whoever was first stays first where possible.
6. Where there is a choice, the replicas of one topic are spread.

A replica goes from a fuller broker to an emptier one along a path: broker a gives a partition to b, b another one to c.
Such a path is what a min-cost flow looks for, and the reason that 3 and 4 hold together. Without racks a path of one
step always exists: a broker with more partitions than another has one that the other has not.

Everything is decided in the order of partitions and brokers, so that the same question has the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.cli.errors import CliError
from penstock.cli.plans.assignments import Assignment, Replicas
from penstock.core.types import TopicPartition


class Wish(NamedTuple):
    brokers: Mapping[int, str | None]  # those that may have replicas, with their racks
    factor: int | None = None  # None: every partition keeps its own
    is_balanced: bool = True  # False: what can stay stays, however uneven that is


class ReplicaMove(NamedTuple):
    key: TopicPartition
    giver: int
    taker: int


def plan_spread(current: Assignment, wish: Wish) -> dict[TopicPartition, Replicas]:
    """The replicas of every partition; CliError when there are not enough brokers."""
    _check_factors(current, wish)
    placement = _Placement(current, wish)
    placement.fill()
    placement.balance()
    leaders = _plan_leaders(current, placement.holders, wish)
    return {key: _in_order(current[key], placement.holders[key], leaders[key]) for key in sorted(current)}


def changed_only(current: Assignment, planned: Assignment) -> dict[TopicPartition, Replicas]:
    return {key: replicas for key, replicas in planned.items() if replicas != current[key]}


def _check_factors(current: Assignment, wish: Wish) -> None:
    count = len(wish.brokers)
    wanting = {key.topic: wish.factor or len(replicas) for key, replicas in sorted(current.items())}
    short = {topic: factor for topic, factor in wanting.items() if factor > count}
    if short:
        topic, factor = next(iter(short.items()))
        others = f" and {len(short) - 1} more topics" if len(short) > 1 else ""
        raise CliError(
            f"{topic}{others} would have {factor} replicas, and there are only {count} brokers for them",
            "Add a broker, or lower the factor: penstock reassign plan --topic NAME --replication-factor N",
        )


def _in_order(before: Replicas, holders: Sequence[int], leader: int) -> Replicas:
    kept = [node for node in before if node in holders and node != leader]
    new = sorted(node for node in holders if node not in before and node != leader)
    return (leader, *kept, *new)


# ---------------------------------------------------------------------------------------------------- replicas


def _rack_limit(factor: int, sizes: Mapping[str, int]) -> int:
    """How many replicas of a partition a rack may have, so that they are in as many racks as possible."""
    limit = 1
    while sum(min(limit, size) for size in sizes.values()) < factor:
        limit += 1
    return limit


class _Placement:
    """Who has which partitions, while that is being decided."""

    def __init__(self, current: Assignment, wish: Wish) -> None:
        self._wish = wish
        self._before = {key: frozenset(replicas) for key, replicas in current.items()}
        racks = wish.brokers
        # Without racks every broker is a rack of its own: then 2 says no more than 1.
        has_racks = all(rack is not None for rack in racks.values())
        self._rack = {node: str(racks[node]) if has_racks else str(node) for node in sorted(racks)}
        sizes = Counter(self._rack.values())
        self._factor = {key: wish.factor or len(replicas) for key, replicas in current.items()}
        self._limits = {factor: _rack_limit(factor, sizes) for factor in set(self._factor.values())}
        self.load = dict.fromkeys(self._rack, 0)
        self._topic_load: Counter[tuple[int, str]] = Counter()
        # By broker and topic: what it had before and still has. Dictionaries, because they keep their order.
        self._old: dict[int, dict[str, dict[TopicPartition, None]]] = {node: {} for node in self._rack}
        self._new: dict[int, dict[TopicPartition, None]] = {node: {} for node in self._rack}  # what came to it
        self._away: dict[int, dict[TopicPartition, None]] = {node: {} for node in self._rack}  # what left it
        # Pairs of brokers of which the first has nothing for the second. Looking through all partitions takes long, and
        # a move makes no difference to other partitions than its own.
        self._hopeless: set[tuple[int, int]] = set()
        self.holders: dict[TopicPartition, list[int]] = {key: [] for key in sorted(current)}
        for key in self.holders:
            for node in self._keep(key, current[key]):
                self._add(key, node)

    # ------------------------------------------------------------------------------------ what can stay

    def _keep(self, key: TopicPartition, before: Replicas) -> list[int]:
        kept: list[int] = []
        for node in before:
            if node in self._rack and (not self._wish.is_balanced or self._has_room(key, node, kept)):
                kept.append(node)
        while len(kept) > self._factor[key]:
            racks = Counter(self._rack[node] for node in kept)
            # The first one leads, and stays if any does.
            kept.remove(max(kept[1:], key=lambda node: (racks[self._rack[node]], self.load[node], node)))
        return kept

    def _has_room(self, key: TopicPartition, node: int, others: Sequence[int]) -> bool:
        in_rack = sum(self._rack[other] == self._rack[node] for other in others)
        return in_rack < self._limits[self._factor[key]]

    def _add(self, key: TopicPartition, node: int) -> None:
        self.holders[key].append(node)
        self.load[node] += 1
        self._topic_load[node, key.topic] += 1
        if node in self._before[key]:
            self._old[node].setdefault(key.topic, {})[key] = None
            self._away[node].pop(key, None)
        else:
            self._new[node][key] = None

    def _remove(self, key: TopicPartition, node: int) -> None:
        self.holders[key].remove(node)
        self.load[node] -= 1
        self._topic_load[node, key.topic] -= 1
        if node in self._before[key]:
            del self._old[node][key.topic][key]
            self._away[node][key] = None
        else:
            del self._new[node][key]

    # ------------------------------------------------------------------------------------ what is missing

    def fill(self) -> None:
        for key, holders in self.holders.items():
            while len(holders) < self._factor[key]:
                self._add(key, self._emptiest(key, holders))

    def _emptiest(self, key: TopicPartition, holders: Sequence[int]) -> int:
        racks = Counter(self._rack[node] for node in holders)

        def weigh(node: int) -> tuple[int, int, int, int]:
            return racks[self._rack[node]], self.load[node], self._topic_load[node, key.topic], node

        return min((node for node in self._rack if node not in holders), key=weigh)

    # ------------------------------------------------------------------------------------ what is uneven

    def balance(self) -> None:
        """Each path makes the sum of the squares of the loads smaller, so this ends."""
        while self._relieve():
            pass

    def _relieve(self) -> bool:
        for load in sorted(set(self.load.values()), reverse=True):
            givers = [node for node in self.load if self.load[node] == load]
            takers = [node for node in self.load if self.load[node] <= load - 2]
            path = self._one_step(givers, takers)
            if not path and self._can_reach(givers, takers):
                path = self._cheapest_path(givers, takers)
            if path and self._follow(path):
                return True
        return False

    def _can_reach(self, givers: list[int], takers: list[int]) -> bool:
        reached = dict.fromkeys(givers)
        row = list(givers)
        while row:
            giver = row.pop()
            for taker in self._rack:
                if taker not in reached and self._cheapest_step(giver, taker):
                    reached[taker] = None
                    row.append(taker)
        return any(taker in reached for taker in takers)

    def _one_step(self, givers: list[int], takers: list[int]) -> list[ReplicaMove]:
        """The usual case, found quickly: where neither side has moved anything yet, no detour is cheaper."""
        for giver in givers:
            for taker in sorted(takers, key=lambda node: (self.load[node], node)):
                if not self._new[giver] and not self._away[taker]:
                    found = self._cheapest_step(giver, taker)
                    if found:
                        return [found[1]]
        return []

    def _cheapest_path(self, givers: list[int], takers: list[int]) -> list[ReplicaMove]:
        """Bellman-Ford over the brokers. A step costs 1 where it moves a replica from where it was."""
        cost = dict.fromkeys(givers, 0)
        last: dict[int, ReplicaMove] = {}
        for _ in self._rack:
            changed = False
            for giver in list(cost):
                for taker in self._rack:
                    found = self._cheapest_step(giver, taker) if taker != giver else None
                    if found and cost[giver] + found[0] < cost.get(taker, cost[giver] + found[0] + 1):
                        cost[taker], last[taker] = cost[giver] + found[0], found[1]
                        changed = True
            if not changed:
                break
        fair = -(-sum(self.load.values()) // len(self.load))
        reached = [node for node in takers if node in last]
        if not reached:
            return []
        # A broker that has its share would have to pass on what it gets.
        end = min(reached, key=lambda node: (self.load[node] >= fair, cost[node], self.load[node], node))
        path: list[ReplicaMove] = []
        while end not in givers and len(path) <= len(self._rack):
            path.append(last[end])
            end = last[end].giver
        return path[::-1] if end in givers else []

    def _follow(self, path: list[ReplicaMove]) -> bool:
        """False, and nothing has changed, where a step stands in the way of another one of the same partition."""
        done: list[ReplicaMove] = []
        for step in path:
            if not self._can(step):
                for undone in reversed(done):
                    self._remove(undone.key, undone.taker)
                    self._add(undone.key, undone.giver)
                return False
            self._remove(step.key, step.giver)
            self._add(step.key, step.taker)
            done.append(step)
        for step in done:
            self._hope(step.key)
        return True

    def _hope(self, key: TopicPartition) -> None:
        holders = self.holders[key]
        for giver in holders:
            for taker in self._rack:
                if (giver, taker) in self._hopeless and self._can(ReplicaMove(key, giver, taker)):
                    self._hopeless.discard((giver, taker))

    def _can(self, step: ReplicaMove) -> bool:
        holders = self.holders[step.key]
        if step.giver not in holders or step.taker in holders:
            return False
        others = [node for node in holders if node != step.giver]
        same_rack = self._rack[step.giver] == self._rack[step.taker]
        return same_rack or self._has_room(step.key, step.taker, others)

    def _cheapest_step(self, giver: int, taker: int) -> tuple[int, ReplicaMove] | None:
        if (giver, taker) in self._hopeless:
            return None
        for cost, key in self._candidates(giver, taker):  # the cheap ones come first
            step = ReplicaMove(key, giver, taker)
            if self._can(step):
                return cost, step
        self._hopeless.add((giver, taker))
        return None

    def _candidates(self, giver: int, taker: int) -> Iterator[tuple[int, TopicPartition]]:
        """What the broker could give, with what that costs, the cheap ones first."""
        for key in self._away[taker]:
            if key in self._new[giver]:
                yield -1, key
        for key in self._new[giver]:
            if taker not in self._before[key]:
                yield 0, key
        if not self._wish.is_balanced:
            return
        for key in self._away[taker]:
            if giver in self._before[key]:
                yield 0, key

        def surplus(topic: str) -> int:
            return self._topic_load[giver, topic] - self._topic_load[taker, topic]

        for topic in sorted(self._old[giver], key=lambda name: (-surplus(name), name)):
            for key in self._old[giver][topic]:
                yield 1, key


# ---------------------------------------------------------------------------------------------------- leaders


def _plan_leaders(
    current: Assignment, holders: Mapping[TopicPartition, Sequence[int]], wish: Wish
) -> dict[TopicPartition, int]:
    leaders: dict[TopicPartition, int] = {}
    led: dict[int, dict[TopicPartition, None]] = {node: {} for node in sorted(wish.brokers)}
    lost = []
    for key, replicas in sorted(current.items()):
        if replicas and replicas[0] in holders[key]:
            leaders[key] = replicas[0]
            led[replicas[0]][key] = None
        else:
            lost.append(key)
    for key in lost:
        # A replica that is there already has the records: it can lead at once.
        leaders[key] = min(holders[key], key=lambda node: (node not in current[key], len(led[node]), node))
        led[leaders[key]][key] = None
    free = None if wish.is_balanced else frozenset(lost)

    def handover(giver: int) -> dict[int, TopicPartition]:
        takers: dict[int, TopicPartition] = {}
        for key in led[giver]:
            if free is None or key in free:
                for node in holders[key]:
                    takers.setdefault(node, key)
        return takers

    while path := _leader_path({node: len(keys) for node, keys in led.items()}, handover):
        for step in path:
            del led[step.giver][step.key]
            led[step.taker][step.key] = None
            leaders[step.key] = step.taker
    return leaders


def _leader_path(load: Mapping[int, int], handover: Callable[[int], dict[int, TopicPartition]]) -> list[ReplicaMove]:
    """The shortest path from a broker that leads more to one that leads less by two or more; empty: there is none."""
    for most in sorted(set(load.values()), reverse=True):
        last: dict[int, ReplicaMove | None] = {node: None for node in load if load[node] == most}
        row = list(last)
        while row:
            found: list[int] = []
            for giver in row:
                for taker, key in sorted(handover(giver).items()):
                    if taker not in last:
                        last[taker] = ReplicaMove(key, giver, taker)
                        found.append(taker)
            ends = [node for node in found if load[node] <= most - 2]
            if ends:
                return _walk_back(last, min(ends, key=lambda node: (load[node], node)))
            row = found
    return []


def _walk_back(last: Mapping[int, ReplicaMove | None], end: int) -> list[ReplicaMove]:
    path = []
    while step := last[end]:
        path.append(step)
        end = step.giver
    return path[::-1]
