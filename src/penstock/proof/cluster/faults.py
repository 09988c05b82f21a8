"""The faults, one function each. A new fault is a function and a line of `FAULTS`; what operators do: `operations`.

A fault is over, and what it broke is mended, when its function returns. Whether the cluster then recovers is judged by
the rounds. Moments and victims are drawn from the seed.
"""

from __future__ import annotations

import contextlib
import time

from confluent_kafka import Producer

from penstock.processes.server_process import ServerProcessError
from penstock.proof.cluster.disks import empty_directory
from penstock.proof.cluster.members import Broker, FaultCluster
from penstock.proof.cluster.operations import OPERATIONS
from penstock.proof.cluster.scene import DEADLINE_S, DOWN_S, Fault, Scene
from penstock.proof.patience import PATIENT
from penstock.proof.reading import read_everything

# A broker's session is 2 s long. Some faults last for less, some for more.
_WITHIN_SESSION_S = (0.1, 1.8)
_BEYOND_SESSION_S = (2.5, 5.0)
_ANY_S = (0.5, 5.0)
_RECREATED_TOPIC = "recreated"
_RECREATED_RECORDS = 20
_SLACK_BYTES = (0, 100_000)


# ---------------------------------------------------------------------------------------------------- processes


def _kill(scene: Scene, broker: Broker) -> str:
    broker.kill()
    scene.wait(DOWN_S)
    broker.start()
    return f"kill -9 broker {broker.node_id}"


def kill_any(scene: Scene) -> str:
    return _kill(scene, scene.any_broker())


def kill_leader(scene: Scene) -> str:
    return f"{_kill(scene, scene.leader())}, a leader"


def kill_controller(scene: Scene) -> str:
    return f"{_kill(scene, scene.controller())}, the controller"


def _pause(scene: Scene, bounds_s: tuple[float, float]) -> str:
    broker = scene.victim()
    broker.pause()
    try:
        scene.wait(bounds_s)
    finally:
        broker.resume()
    return f"pause broker {broker.node_id}"


def pause_short(scene: Scene) -> str:
    return _pause(scene, _WITHIN_SESSION_S)


def pause_long(scene: Scene) -> str:
    return _pause(scene, _BEYOND_SESSION_S)


def quick_restart(scene: Scene) -> str:
    """Back before its session has ended; half the time killed, half the time stopped."""
    broker = scene.victim()
    is_killed = scene.random.random() < 0.5
    if is_killed:
        broker.kill()
    else:
        broker.terminate()
    broker.start()
    return f"{'kill' if is_killed else 'stop'} broker {broker.node_id} and start it at once"


def rolling_restart(scene: Scene) -> str:
    order = scene.random.sample(scene.cluster.brokers, len(scene.cluster.brokers))
    for broker in order:
        broker.restart()
        problem = scene.cluster.wait_until_in_sync(DEADLINE_S)
        if problem:
            scene.problems.append(f"rolling restart: after broker {broker.node_id}: {problem}")
    return f"restart brokers {', '.join(str(broker.node_id) for broker in order)}"


# ---------------------------------------------------------------------------------------------------- networks


def _heal_later(scene: Scene, what: str) -> str:
    try:
        scene.wait(_ANY_S)
    finally:
        scene.cluster.network.heal()
    return what


def cut(scene: Scene) -> str:
    one, other = scene.random.sample(scene.cluster.brokers, 2)
    scene.cluster.network.cut(one.member, other.member)
    return _heal_later(scene, f"cut brokers {one.node_id} and {other.node_id} apart")


def cut_one_way(scene: Scene) -> str:
    one, other = scene.random.sample(scene.cluster.brokers, 2)
    scene.cluster.network.cut_one_way(one.member, other.member)
    return _heal_later(scene, f"cut the way from broker {one.node_id} to {other.node_id}")


def isolate(scene: Scene) -> str:
    broker = scene.victim()
    scene.cluster.network.isolate(broker.member)
    return _heal_later(scene, f"isolate broker {broker.node_id}")


def cut_from_zookeeper(scene: Scene) -> str:
    broker = scene.victim()
    for number in range(1, len(scene.cluster.zookeeper) + 1):
        scene.cluster.network.cut(broker.member, f"z{number}")
    return _heal_later(scene, f"cut broker {broker.node_id} from ZooKeeper")


# ---------------------------------------------------------------------------------------------------- ZooKeeper


def restart_zookeeper(scene: Scene) -> str:
    servers = scene.cluster.zookeeper
    for server in servers:
        server.kill()
    scene.wait(DOWN_S)
    for server in servers:
        server.spawn()
    for server in servers:
        server.wait_until_ready()
    return "kill -9 ZooKeeper, and start it again"


def kill_zookeeper_leader(scene: Scene) -> str:
    leader = next((server for server in scene.cluster.zookeeper if "Mode: leader" in server.ask("srvr")), None)
    if leader is None:
        scene.problems.append("no server of ZooKeeper says that it leads")
        return "kill nobody"
    leader.kill()
    scene.wait(DOWN_S)
    leader.start()
    return f"kill -9 {leader.name}, the leader of its ensemble"


# ---------------------------------------------------------------------------------------------------- disks


def fill_disk(scene: Scene) -> str:
    """A broker that finds no room stops to serve what it could not write: others must lead that. With room it is
    started again.
    """
    broker = scene.victim()
    broker.disk.fill(broker.pid, scene.random.randint(*_SLACK_BYTES))
    try:
        scene.wait(_ANY_S)
        problem = _wait_until_relieved(scene, broker)
        if problem:
            scene.problems.append(problem)
    finally:
        broker.disk.free(broker.pid if broker.is_running else None)
    _start_again(broker)
    return f"fill the disk of broker {broker.node_id}"


def _wait_until_relieved(scene: Scene, broker: Broker) -> str:
    """Clients write to every partition of their topics, so the broker soon finds no room in any."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        led = [
            f"{topic}-{index}"
            for (topic, index), state in sorted(scene.cluster.partitions(broker).items())
            if topic in scene.topics and state.leader_id == broker.node_id
        ]
        if not led:
            return ""
        if time.monotonic() > deadline:
            return f"broker {broker.node_id} leads {', '.join(led)} {DEADLINE_S:g} s after its disk was full"
        time.sleep(0.2)


def slow_disk(scene: Scene) -> str:
    broker = scene.any_broker()
    broker.terminate()
    broker.is_slow = True
    try:
        broker.start()
        scene.wait(_ANY_S)
    finally:
        broker.is_slow = False
    _start_again(broker)
    return f"slow down the disk of broker {broker.node_id}"


def empty_disk(scene: Scene) -> str:
    """Another machine takes the place of a broker, while the other two have everything."""
    broker = scene.victim()
    broker.kill()
    for directory in broker.log_dirs:
        empty_directory(directory)
    if scene.random.random() < 0.5:
        scene.wait(DOWN_S)
    broker.start()
    return f"replace broker {broker.node_id} by one with an empty disk"


def _start_again(broker: Broker) -> None:
    """However it takes its end: with a disk that failed it may have ended by itself, or not be able to end cleanly."""
    if broker.is_running:
        with contextlib.suppress(ServerProcessError):
            broker.terminate()
    broker.kill()
    broker.start()


# ---------------------------------------------------------------------------------------------------- topics


def recreate_topic(scene: Scene) -> str:
    """A topic is deleted and made again while a broker with a replica is down: that one must not bring it back."""
    cluster = scene.cluster
    cluster.delete_topic(_RECREATED_TOPIC)
    cluster.create_topic(_RECREATED_TOPIC, 1)
    _send(cluster, "old")
    broker = scene.any_broker()
    broker.kill()
    cluster.delete_topic(_RECREATED_TOPIC)
    cluster.create_topic(_RECREATED_TOPIC, 1, 2)
    _send(cluster, "new")
    broker.start()
    problem = cluster.wait_until_in_sync(DEADLINE_S)
    if problem:
        scene.problems.append(f"the topic that was made again: {problem}")
    messages = read_everything(cluster.bootstrap_servers, [(_RECREATED_TOPIC, 0)])
    values = [(message.value() or b"").decode() for message in messages]
    if values != [f"new {number}" for number in range(_RECREATED_RECORDS)]:
        scene.problems.append(f"the topic that was made again holds {values}")
    return f"delete a topic and make it again while broker {broker.node_id} is down"


def _send(cluster: FaultCluster, word: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **PATIENT, "enable.idempotence": True})
    for number in range(_RECREATED_RECORDS):
        producer.produce(_RECREATED_TOPIC, f"{word} {number}".encode(), partition=0)
    if producer.flush(DEADLINE_S):
        raise TimeoutError(f"{_RECREATED_TOPIC} took no records within {DEADLINE_S} s")


FAULTS: dict[str, Fault] = {
    "kill": kill_any,
    "kill-leader": kill_leader,
    "kill-controller": kill_controller,
    "pause-short": pause_short,
    "pause-long": pause_long,
    "cut": cut,
    "one-way": cut_one_way,
    "isolate": isolate,
    "zookeeper-cut": cut_from_zookeeper,
    "zookeeper-restart": restart_zookeeper,
    "zookeeper-leader": kill_zookeeper_leader,
    "full-disk": fill_disk,
    "slow-disk": slow_disk,
    "empty-disk": empty_disk,
    "quick-restart": quick_restart,
    "rolling-restart": rolling_restart,
    "recreate-topic": recreate_topic,
    **OPERATIONS,
}
# Only these need an ensemble: three servers of Java cost seconds at the start.
NEED_ENSEMBLE = frozenset({"zookeeper-leader"})
