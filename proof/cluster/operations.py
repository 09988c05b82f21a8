"""What operators do to a cluster under load, one function each: faults of a kind, though nothing has to break.

Three brokers hold every partition, so a move takes replicas away from brokers, to others, and back: leaders and
followers come and go, and in the end every broker has a replica again. A move ends, or is cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from penstock.protocol.messages.metadata import MetadataResponsePartition
from penstock.testing.history import Where
from proof.cluster.administration import Administration, wait_until_none
from proof.cluster.disks import empty_directory
from proof.cluster.fault_context import DEADLINE_S, DOWN_S, Fault, FaultContext
from proof.cluster.members import BROKERS, Broker
from proof.cluster.replicas import find_directory

Replicas = tuple[int, ...]
# A move of what an episode has written takes some tenths of a second.
_WITHIN_MOVE_S = (0.0, 0.8)
_SOON_S = (0.0, 0.15)
# Bytes a second: slow enough that a throttled move lasts for seconds, and that the removal of the throttle ends it.
_RATES = (50_000, 500_000)
_POLL_S = 0.05


def _everywhere(wheres: Iterable[Where], context: FaultContext) -> dict[Where, Replicas]:
    return {where: tuple(context.random.sample(BROKERS, len(BROKERS))) for where in sorted(wheres)}


def _used(context: FaultContext, administration: Administration) -> dict[Where, Replicas]:
    """The partitions that clients use, and the coordinators' at half of the times, if all brokers have them."""
    takes_all = context.random.random() < 0.5
    return {
        where: nodes
        for where, nodes in administration.replicas().items()
        if (takes_all or where[0] in context.topics) and len(nodes) == len(BROKERS)
    }


def _without(replicas: Mapping[Where, Replicas], context: FaultContext) -> dict[Where, Replicas]:
    """One replica less of each partition, any one of them."""
    return {where: tuple(context.random.sample(nodes, len(nodes) - 1)) for where, nodes in sorted(replicas.items())}


def _swapped(targets: Mapping[Where, Replicas], context: FaultContext) -> dict[Where, Replicas]:
    """The broker without a replica gets one for one of the others."""
    moved = {}
    for where, nodes in sorted(targets.items()):
        (free,) = [node for node in BROKERS if node not in nodes]
        moved[where] = tuple(context.random.sample((free, context.random.choice(nodes)), len(nodes)))
    return moved


def _end(context: FaultContext, administration: Administration, what: str) -> None:
    problem = administration.wait_until_moved(DEADLINE_S)
    if problem:
        context.problems.append(f"{what}: {problem}")
        administration.reassign(dict.fromkeys(administration.replicas(), None))
        problem = administration.wait_until_moved(DEADLINE_S)
        if problem:
            context.problems.append(f"{what}: it cannot be cancelled: {problem}")


def _bring_back(context: FaultContext, administration: Administration, what: str) -> None:
    """Every broker has a replica of every partition again."""
    administration.reassign(_everywhere(administration.replicas(), context))
    _end(context, administration, f"{what}, on the way back")


def _check_gone(context: FaultContext, targets: Mapping[Where, Replicas]) -> None:
    """A broker that a replica left has no copy of it any more; files that wait for their deletion have other names."""

    def find_strays() -> list[str]:
        return [
            f"{topic}-{index} on broker {broker.node_id}"
            for (topic, index), nodes in sorted(targets.items())
            for broker in context.cluster.brokers
            if broker.node_id not in nodes and find_directory(broker.log_dirs, f"{topic}-{index}").is_dir()
        ]

    problem = wait_until_none(find_strays, DEADLINE_S, "a stray copy")
    if problem:
        context.problems.append(problem)


# ---------------------------------------------------------------------------------------------------- moves


def reassign(context: FaultContext) -> str:
    """A replica of each partition goes, another one takes the place of one that stayed, and all come back."""
    administration = Administration(context.cluster)
    targets = _without(_used(context, administration), context)
    administration.reassign(targets)
    _end(context, administration, "reassign")
    _check_gone(context, targets)
    targets = _swapped(targets, context)
    rate = context.random.choice(_RATES)
    administration.throttle(rate, context.topics)
    try:
        administration.reassign(targets)
        context.wait(_WITHIN_MOVE_S)
    finally:
        administration.throttle(None, context.topics)
    _end(context, administration, "reassign")
    _check_gone(context, targets)
    _bring_back(context, administration, "reassign")
    return f"move the replicas of {len(targets)} partitions to and fro, throttled to {rate} bytes a second"


def reassign_kill(context: FaultContext) -> str:
    administration = Administration(context.cluster)
    targets = _without(_used(context, administration), context)
    administration.reassign(targets)
    _end(context, administration, "reassign-kill")
    targets = _swapped(targets, context)
    administration.reassign(targets)
    context.wait(_WITHIN_MOVE_S)
    broker = context.victim()
    broker.kill()
    context.wait(DOWN_S)
    broker.start()
    _end(context, administration, "reassign-kill")
    _check_gone(context, targets)
    _bring_back(context, administration, "reassign-kill")
    return f"kill -9 broker {broker.node_id} while the replicas of {len(targets)} partitions move"


def reassign_cancel(context: FaultContext) -> str:
    administration = Administration(context.cluster)
    before = _without(_used(context, administration), context)
    administration.reassign(before)
    _end(context, administration, "reassign-cancel")
    administration.reassign(_swapped(before, context))
    context.wait(_SOON_S)
    administration.reassign(dict.fromkeys(before, None))
    left = administration.moving()
    if left:
        context.problems.append(f"reassign-cancel: {', '.join(left)}: under way after it was cancelled")
    now = administration.replicas()
    kept = sum(set(now[where]) == set(nodes) for where, nodes in before.items())
    _bring_back(context, administration, "reassign-cancel")
    return f"cancel the moves of {len(before)} partitions, of which {len(before) - kept} were over"


# ---------------------------------------------------------------------------------------------------- brokers


def decommission(context: FaultContext) -> str:
    """A broker is drained and stopped, another one with an empty disk takes its place and gets the replicas."""
    administration = Administration(context.cluster)
    broker = context.any_broker()
    held = {where: nodes for where, nodes in administration.replicas().items() if broker.node_id in nodes}
    drained = {where: tuple(node for node in nodes if node != broker.node_id) for where, nodes in held.items()}
    administration.reassign(drained)
    _end(context, administration, "decommission")
    _check_gone(context, drained)
    broker.terminate()
    for directory in broker.log_dirs:
        empty_directory(directory)
    context.wait(DOWN_S)
    broker.start()
    problem = context.cluster.wait_until_ready(DEADLINE_S)
    if problem:
        context.problems.append(f"decommission: {problem}")
    _bring_back(context, administration, "decommission")
    return f"drain broker {broker.node_id} of {len(drained)} replicas, stop it, and use one with an empty disk"


def demote(context: FaultContext) -> str:
    """Leadership moves away from a broker, as before its maintenance, and comes back."""
    administration = Administration(context.cluster)
    broker = context.victim()
    before = administration.replicas()
    administration.reassign({where: _last(nodes, broker) for where, nodes in before.items()})
    administration.elect_preferred()
    problem = wait_until_none(
        lambda: administration.led_by(broker.node_id), DEADLINE_S, f"led by broker {broker.node_id}"
    )
    if problem:
        context.problems.append(f"demote: {problem}")
    if context.random.random() < 0.5:
        broker.restart()
    administration.reassign(before)
    problem = context.cluster.wait_until_in_sync(DEADLINE_S)
    administration.elect_preferred()

    def astray() -> list[str]:
        states = context.cluster.partitions()
        return [f"{topic}-{index}" for (topic, index), each in sorted(states.items()) if _is_astray(each)]

    problem = problem or wait_until_none(astray, DEADLINE_S, "not led by its preferred leader")
    if problem:
        context.problems.append(f"demote: {problem}")
    return f"demote broker {broker.node_id}, and elect the preferred leaders"


def _last(nodes: Replicas, broker: Broker) -> Replicas:
    return tuple(sorted(nodes, key=lambda node: node == broker.node_id))


def _is_astray(state: MetadataResponsePartition) -> bool:
    return state.leader_id != state.replica_nodes[0]


# ---------------------------------------------------------------------------------------------------- directories


def move_directories(context: FaultContext) -> str:
    """The replicas of one broker go from one of its directories to the other, while they serve."""
    administration = Administration(context.cluster)
    broker = context.victim()
    one, other = (str(directory) for directory in broker.log_dirs)
    places = {
        where: path for where, path in administration.directories(broker.node_id).items() if where[0] in context.topics
    }
    targets = {where: other if path == one else one for where, path in places.items()}
    administration.move_directories(broker.node_id, targets)
    is_killed = context.random.random() < 0.3
    if is_killed:
        context.wait(_SOON_S)
        broker.kill()
        broker.start()

    def astray() -> list[str]:
        now = administration.directories(broker.node_id)
        return [f"{topic}-{index}" for (topic, index), path in targets.items() if now.get((topic, index)) != path]

    deadline = time.monotonic() + DEADLINE_S
    while astray() and time.monotonic() < deadline:
        if is_killed:  # the kill may have come before the broker had noted what was asked of it
            administration.move_directories(broker.node_id, targets)
        time.sleep(_POLL_S)
    left = astray()
    if left:
        context.problems.append(f"move-directories: {', '.join(left)} are not where they should be")
    killed = ", and kill -9 it meanwhile" if is_killed else ""
    return f"move {len(targets)} replicas of broker {broker.node_id} to its other directory{killed}"


OPERATIONS: dict[str, Fault] = {
    "reassign": reassign,
    "reassign-kill": reassign_kill,
    "reassign-cancel": reassign_cancel,
    "decommission": decommission,
    "demote": demote,
    "move-directories": move_directories,
}
