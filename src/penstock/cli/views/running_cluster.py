"""How `cluster start` shows the cluster that it runs: a line for each broker, and what the partitions lack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.cli.output import Table
from penstock.cli.views.cluster import PartitionCounts
from penstock.local_cluster.members import ClusterBroker
from penstock.local_cluster.state import ClusterCounts


class MemberView(NamedTuple):
    node_id: int
    address: str
    pid: int | None
    state: str


class RunningView(NamedTuple):
    """Two of them are equal when there is nothing new to show."""

    members: tuple[MemberView, ...]
    state: ClusterCounts | None

    @property
    def is_over(self) -> bool:
        return all(member.pid is None for member in self.members) and self.state is None

    @property
    def summary(self) -> str:
        if self.state is None:
            return "No broker answers."
        state = self.state
        counts = PartitionCounts(len(state.topics), state.partition_count, state.under_replicated, state.offline)
        return f"Topics: {counts.topics}, partitions: {counts}"


def view_of(brokers: list[ClusterBroker], states: Mapping[int, ClusterCounts | None]) -> RunningView:
    """The controller's answer is the newest, so it counts, if it comes; else the first that comes."""
    answers = {node_id: state for node_id, state in states.items() if state is not None}
    by_the_controller = (state for node_id, state in answers.items() if state.controller_id == node_id)
    newest = next(by_the_controller, None) or next(iter(answers.values()), None)
    members = (
        MemberView(broker.node_id, broker.bootstrap_servers, broker.pid, _describe(broker, broker.node_id in answers))
        for broker in brokers
    )
    return RunningView(tuple(members), newest)


def _describe(broker: ClusterBroker, does_answer: bool) -> str:
    if not broker.is_running:
        return "started elsewhere" if does_answer else "ended"
    if broker.is_paused:
        return "paused"
    return "running" if does_answer else "does not answer"


def running_table(view: RunningView) -> Table:
    table = Table((">ID", "ADDRESS", ">PROCESS", "STATE", "CONTROLLER", ">LEADS", ">LAGGING"))
    state = view.state
    for member in view.members:
        is_controller = state is not None and state.controller_id == member.node_id
        table.add(
            member.node_id,
            member.address,
            member.pid,
            member.state,
            "yes" if is_controller else "",
            None if state is None else state.led.get(member.node_id, 0),
            None if state is None else state.lagging.get(member.node_id, 0),
        )
    return table
