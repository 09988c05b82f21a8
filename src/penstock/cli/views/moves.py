"""How commands show moves of replicas: plans, what is under way, and the brokers before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.admin.state.partitions import NO_LEADER
from penstock.cli.output import Table
from penstock.cli.plans.assignments import Assignment, ClusterNow, ReplicaPlace, reassignment_document
from penstock.cli.plans.progress import MoveState, MoveView, Overview, total_of
from penstock.cli.text import format_duration, format_size
from penstock.cli.views.topics import join_ids
from penstock.core.types import TopicPartition


class PlanView(NamedTuple):
    current: Assignment  # of the partitions that change
    proposed: Assignment
    volumes: Mapping[TopicPartition, int]  # bytes to copy

    @property
    def moving_replicas(self) -> int:
        return sum(len(set(new) - set(self.current[key])) for key, new in self.proposed.items())

    @property
    def new_leaders(self) -> int:
        return sum(new[0] != self.current[key][0] for key, new in self.proposed.items())


def plan_document(plan: PlanView) -> dict[str, Any]:
    return {
        "proposed": reassignment_document(plan.proposed),
        "current": reassignment_document(plan.current),
        "partitions": len(plan.proposed),
        "replicas_to_move": plan.moving_replicas,
        "bytes_to_move": sum(plan.volumes.values()),
        "new_preferred_leaders": plan.new_leaders,
    }


def plan_fields(plan: PlanView) -> list[tuple[str, object]]:
    return [
        ("Partitions that change", len(plan.proposed)),
        ("Replicas that move", plan.moving_replicas),
        ("Bytes to copy", format_size(sum(plan.volumes.values()))),
        ("New preferred leaders", plan.new_leaders),
    ]


def balance_table(before: Assignment, after: Assignment, brokers: Iterable[int]) -> Table:
    """The planned partitions alone: what other topics have is not counted."""
    table = Table((">BROKER", ">REPLICAS", ">AFTER", ">PREFERRED LEADER OF", ">AFTER"))
    counts = [Counter(node for replicas in each.values() for node in replicas) for each in (before, after)]
    firsts = [Counter(replicas[0] for replicas in each.values()) for each in (before, after)]
    for node in sorted({*brokers, *counts[0], *counts[1]}):
        table.add(node, counts[0][node], counts[1][node], firsts[0][node], firsts[1][node])
    return table


# ---------------------------------------------------------------------------------------------------- under way


def move_table(moves: Sequence[MoveView]) -> Table:
    table = Table(("TOPIC", ">PARTITION", "STATE", "REPLICAS", "ADDING", "REMOVING", ">LEFT"))
    for move in moves:
        table.add(
            move.key.topic,
            move.key.partition,
            move.state.value,
            join_ids(move.replicas),
            join_ids(move.adding),
            join_ids(move.removing),
            format_size(move.bytes_left) if move.adding else None,
        )
    return table


def overview_document(overview: Overview, seconds: float | None) -> dict[str, Any]:
    return {
        "moves": [
            {
                "topic": move.key.topic,
                "partition": move.key.partition,
                "state": move.state.name.lower(),
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "bytes_left": move.bytes_left,
            }
            for move in overview.moves
        ],
        "under_way": overview.under_way,
        "others_under_way": overview.others,
        "bytes_left": overview.bytes_left,
        "seconds_left": None if seconds is None else round(seconds, 1),
    }


def summary(overview: Overview, seconds: float | None) -> str:
    done = sum(move.state is MoveState.DONE for move in overview.moves)
    parts = [f"{overview.under_way} under way"]
    if done:
        parts.append(f"{done} done")
    if overview.failed:
        parts.append(f"{len(overview.failed)} not as in the file")
    if overview.others:
        parts.append(f"{overview.others} others under way")
    left = ""
    if overview.under_way:
        left = f" {format_size(overview.bytes_left)} left"
        left += (
            f", about {format_duration(seconds)}."
            if seconds is not None
            else "; nothing has been copied in the last second."
        )
    return f"Moves: {', '.join(parts)}.{left}"


# ---------------------------------------------------------------------------------------------------- brokers


class BrokerCounts(NamedTuple):
    id: int
    address: str | None  # None: it is not there
    rack: str | None
    is_controller: bool
    replicas: int
    leads: int
    preferred: int  # partitions whose first replica it is
    lagging: int  # replicas that are not in sync, without those that a move is adding
    size: int


def count_brokers(now: ClusterNow, sizes: Mapping[ReplicaPlace, int]) -> list[BrokerCounts]:
    """All that are there, all that are registered, and all that should have replicas."""
    replicas: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    lagging: Counter[int] = Counter()
    for partition in now.partitions.values():
        replicas.update(partition.replicas)
        lagging.update(partition.lagging)
        preferred.update(partition.replicas[:1])
        if partition.leader != NO_LEADER:
            leads[partition.leader] += 1
    ids = sorted({*now.brokers, *now.away, *replicas})
    totals = total_of(sizes, ids)
    views = []
    for node_id in ids:
        node = now.brokers.get(node_id)
        views.append(
            BrokerCounts(
                node_id,
                None if node is None else f"{node.host}:{node.port}",
                None if node is None else node.rack,
                node_id == now.controller,
                replicas[node_id],
                leads[node_id],
                preferred[node_id],
                lagging[node_id],
                totals[node_id],
            )
        )
    return views


def broker_counts_table(views: Iterable[BrokerCounts]) -> Table:
    table = Table((">ID", "ADDRESS", "RACK", "CONTROLLER", ">REPLICAS", ">LEADS", ">PREFERRED", ">LAGGING", ">SIZE"))
    for view in views:
        table.add(
            view.id,
            view.address or "away",
            view.rack,
            "yes" if view.is_controller else "",
            view.replicas,
            view.leads,
            view.preferred,
            view.lagging,
            format_size(view.size) if view.address else None,
        )
    return table
