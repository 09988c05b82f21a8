"""What operators do to a cluster under load, one function each: faults of a kind, though nothing has to break.

Three brokers hold every partition, so a move takes replicas away from brokers, to others, and back: leaders and
followers come and go, and in the end every broker has a replica again. A move ends, or is cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from penstock.proof.cluster.administration import Administration, wait_until_none
from penstock.proof.cluster.disks import empty_directory
from penstock.proof.cluster.members import BROKERS, Broker
from penstock.proof.cluster.replicas import find_directory
from penstock.proof.cluster.scene import DEADLINE_S, DOWN_S, Fault, Scene
from penstock.protocol.messages.metadata import MetadataResponsePartition
from penstock.testing.history import Where

Replicas = tuple[int, ...]
# A move of what an episode has written takes some tenths of a second.
_WITHIN_MOVE_S = (0.0, 0.8)
_SOON_S = (0.0, 0.15)
# Bytes a second: slow enough that a throttled move lasts for seconds, and that the removal of the throttle ends it.
_RATES = (50_000, 500_000)
_POLL_S = 0.05


def _everywhere(wheres: Iterable[Where], scene: Scene) -> dict[Where, Replicas]:
    return {where: tuple(scene.random.sample(BROKERS, len(BROKERS))) for where in sorted(wheres)}


def _used(scene: Scene, administration: Administration) -> dict[Where, Replicas]:
    """The partitions that clients use, and the coordinators' at half of the times, if all brokers have them."""
    takes_all = scene.random.random() < 0.5
    return {
        where: nodes
        for where, nodes in administration.replicas().items()
        if (takes_all or where[0] in scene.topics) and len(nodes) == len(BROKERS)
    }


def _without(replicas: Mapping[Where, Replicas], scene: Scene) -> dict[Where, Replicas]:
    """One replica less of each partition, any one of them."""
    return {where: tuple(scene.random.sample(nodes, len(nodes) - 1)) for where, nodes in sorted(replicas.items())}


def _swapped(targets: Mapping[Where, Replicas], scene: Scene) -> dict[Where, Replicas]:
    """The broker without a replica gets one for one of the others."""
    moved = {}
    for where, nodes in sorted(targets.items()):
        (free,) = [node for node in BROKERS if node not in nodes]
        moved[where] = tuple(scene.random.sample((free, scene.random.choice(nodes)), len(nodes)))
    return moved


def _end(scene: Scene, administration: Administration, what: str) -> None:
    problem = administration.wait_until_moved(DEADLINE_S)
    if problem:
        scene.problems.append(f"{what}: {problem}")
        administration.reassign(dict.fromkeys(administration.replicas(), None))
        problem = administration.wait_until_moved(DEADLINE_S)
        if problem:
            scene.problems.append(f"{what}: it cannot be cancelled: {problem}")


def _bring_back(scene: Scene, administration: Administration, what: str) -> None:
    """Every broker has a replica of every partition again."""
    administration.reassign(_everywhere(administration.replicas(), scene))
    _end(scene, administration, f"{what}, on the way back")


def _check_gone(scene: Scene, targets: Mapping[Where, Replicas]) -> None:
    """A broker that a replica left has no copy of it any more; files that wait for their deletion have other names."""

    def find_strays() -> list[str]:
        return [
            f"{topic}-{index} on broker {broker.node_id}"
            for (topic, index), nodes in sorted(targets.items())
            for broker in scene.cluster.brokers
            if broker.node_id not in nodes and find_directory(broker.log_dirs, f"{topic}-{index}").is_dir()
        ]

    problem = wait_until_none(find_strays, DEADLINE_S, "a stray copy")
    if problem:
        scene.problems.append(problem)


# ---------------------------------------------------------------------------------------------------- moves


def reassign(scene: Scene) -> str:
    """A replica of each partition goes, another one takes the place of one that stayed, and all come back."""
    administration = Administration(scene.cluster)
    targets = _without(_used(scene, administration), scene)
    administration.reassign(targets)
    _end(scene, administration, "reassign")
    _check_gone(scene, targets)
    targets = _swapped(targets, scene)
    rate = scene.random.choice(_RATES)
    administration.throttle(rate, scene.topics)
    try:
        administration.reassign(targets)
        scene.wait(_WITHIN_MOVE_S)
    finally:
        administration.throttle(None, scene.topics)
    _end(scene, administration, "reassign")
    _check_gone(scene, targets)
    _bring_back(scene, administration, "reassign")
    return f"move the replicas of {len(targets)} partitions to and fro, throttled to {rate} bytes a second"


def reassign_kill(scene: Scene) -> str:
    administration = Administration(scene.cluster)
    targets = _without(_used(scene, administration), scene)
    administration.reassign(targets)
    _end(scene, administration, "reassign-kill")
    targets = _swapped(targets, scene)
    administration.reassign(targets)
    scene.wait(_WITHIN_MOVE_S)
    broker = scene.victim()
    broker.kill()
    scene.wait(DOWN_S)
    broker.start()
    _end(scene, administration, "reassign-kill")
    _check_gone(scene, targets)
    _bring_back(scene, administration, "reassign-kill")
    return f"kill -9 broker {broker.node_id} while the replicas of {len(targets)} partitions move"


def reassign_cancel(scene: Scene) -> str:
    administration = Administration(scene.cluster)
    before = _without(_used(scene, administration), scene)
    administration.reassign(before)
    _end(scene, administration, "reassign-cancel")
    administration.reassign(_swapped(before, scene))
    scene.wait(_SOON_S)
    administration.reassign(dict.fromkeys(before, None))
    left = administration.moving()
    if left:
        scene.problems.append(f"reassign-cancel: {', '.join(left)}: under way after it was cancelled")
    now = administration.replicas()
    kept = sum(set(now[where]) == set(nodes) for where, nodes in before.items())
    _bring_back(scene, administration, "reassign-cancel")
    return f"cancel the moves of {len(before)} partitions, of which {len(before) - kept} were over"


# ---------------------------------------------------------------------------------------------------- brokers


def decommission(scene: Scene) -> str:
    """A broker is drained and stopped, another one with an empty disk takes its place and gets the replicas."""
    administration = Administration(scene.cluster)
    broker = scene.any_broker()
    held = {where: nodes for where, nodes in administration.replicas().items() if broker.node_id in nodes}
    drained = {where: tuple(node for node in nodes if node != broker.node_id) for where, nodes in held.items()}
    administration.reassign(drained)
    _end(scene, administration, "decommission")
    _check_gone(scene, drained)
    broker.terminate()
    for directory in broker.log_dirs:
        empty_directory(directory)
    scene.wait(DOWN_S)
    broker.start()
    problem = scene.cluster.wait_until_ready(DEADLINE_S)
    if problem:
        scene.problems.append(f"decommission: {problem}")
    _bring_back(scene, administration, "decommission")
    return f"drain broker {broker.node_id} of {len(drained)} replicas, stop it, and use one with an empty disk"


def demote(scene: Scene) -> str:
    """Leadership moves away from a broker, as before its maintenance, and comes back."""
    administration = Administration(scene.cluster)
    broker = scene.victim()
    before = administration.replicas()
    administration.reassign({where: _last(nodes, broker) for where, nodes in before.items()})
    administration.elect_preferred()
    problem = wait_until_none(
        lambda: administration.led_by(broker.node_id), DEADLINE_S, f"led by broker {broker.node_id}"
    )
    if problem:
        scene.problems.append(f"demote: {problem}")
    if scene.random.random() < 0.5:
        broker.restart()
    administration.reassign(before)
    problem = scene.cluster.wait_until_in_sync(DEADLINE_S)
    administration.elect_preferred()

    def astray() -> list[str]:
        states = scene.cluster.partitions()
        return [f"{topic}-{index}" for (topic, index), each in sorted(states.items()) if _is_astray(each)]

    problem = problem or wait_until_none(astray, DEADLINE_S, "not led by its preferred leader")
    if problem:
        scene.problems.append(f"demote: {problem}")
    return f"demote broker {broker.node_id}, and elect the preferred leaders"


def _last(nodes: Replicas, broker: Broker) -> Replicas:
    return tuple(sorted(nodes, key=lambda node: node == broker.node_id))


def _is_astray(state: MetadataResponsePartition) -> bool:
    return state.leader_id != state.replica_nodes[0]


# ---------------------------------------------------------------------------------------------------- directories


def move_directories(scene: Scene) -> str:
    """The replicas of one broker go from one of its directories to the other, while they serve."""
    administration = Administration(scene.cluster)
    broker = scene.victim()
    one, other = (str(directory) for directory in broker.log_dirs)
    places = {
        where: path for where, path in administration.directories(broker.node_id).items() if where[0] in scene.topics
    }
    targets = {where: other if path == one else one for where, path in places.items()}
    administration.move_directories(broker.node_id, targets)
    is_killed = scene.random.random() < 0.3
    if is_killed:
        scene.wait(_SOON_S)
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
        scene.problems.append(f"move-directories: {', '.join(left)} are not where they should be")
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
