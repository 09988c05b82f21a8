"""The faults, one function each. A new fault is a function and a line of `FAULTS`; what operators do: `operations`.

A fault is over, and what it broke is mended, when its function returns. Whether the cluster then recovers is judged by
the rounds. Moments and victims are drawn from the seed.
"""

from __future__ import annotations

import contextlib
import time

from confluent_kafka import Producer

from penstock.processes.server_process import ServerProcessError
from penstock.testing.fleet.patience import PATIENT
from penstock.testing.fleet.read_back import read_everything
from proof.cluster.disks import empty_directory
from proof.cluster.fault_context import DEADLINE_S, DOWN_S, Fault, FaultContext
from proof.cluster.members import Broker, FaultCluster
from proof.cluster.operations import OPERATIONS

# A broker's session is 2 s long. Some faults last for less, some for more.
_WITHIN_SESSION_S = (0.1, 1.8)
_BEYOND_SESSION_S = (2.5, 5.0)
_ANY_S = (0.5, 5.0)
_RECREATED_TOPIC = "recreated"
_RECREATED_RECORDS = 20
_SLACK_BYTES = (0, 100_000)


# ---------------------------------------------------------------------------------------------------- processes


def _kill(context: FaultContext, broker: Broker) -> str:
    broker.kill()
    context.wait(DOWN_S)
    broker.start()
    return f"kill -9 broker {broker.node_id}"


def kill_any(context: FaultContext) -> str:
    return _kill(context, context.any_broker())


def kill_leader(context: FaultContext) -> str:
    return f"{_kill(context, context.leader())}, a leader"


def kill_controller(context: FaultContext) -> str:
    return f"{_kill(context, context.controller())}, the controller"


def _pause(context: FaultContext, bounds_s: tuple[float, float]) -> str:
    broker = context.victim()
    broker.pause()
    try:
        context.wait(bounds_s)
    finally:
        broker.resume()
    return f"pause broker {broker.node_id}"


def pause_short(context: FaultContext) -> str:
    return _pause(context, _WITHIN_SESSION_S)


def pause_long(context: FaultContext) -> str:
    return _pause(context, _BEYOND_SESSION_S)


def quick_restart(context: FaultContext) -> str:
    """Back before its session has ended; half the time killed, half the time stopped."""
    broker = context.victim()
    is_killed = context.random.random() < 0.5
    if is_killed:
        broker.kill()
    else:
        broker.terminate()
    broker.start()
    return f"{'kill' if is_killed else 'stop'} broker {broker.node_id} and start it at once"


def rolling_restart(context: FaultContext) -> str:
    order = context.random.sample(context.cluster.brokers, len(context.cluster.brokers))
    for broker in order:
        broker.restart()
        problem = context.cluster.wait_until_in_sync(DEADLINE_S)
        if problem:
            context.problems.append(f"rolling restart: after broker {broker.node_id}: {problem}")
    return f"restart brokers {', '.join(str(broker.node_id) for broker in order)}"


# ---------------------------------------------------------------------------------------------------- networks


def _heal_later(context: FaultContext, what: str) -> str:
    try:
        context.wait(_ANY_S)
    finally:
        context.cluster.network.heal()
    return what


def cut(context: FaultContext) -> str:
    one, other = context.random.sample(context.cluster.brokers, 2)
    context.cluster.network.cut(one.member, other.member)
    return _heal_later(context, f"cut brokers {one.node_id} and {other.node_id} apart")


def cut_one_way(context: FaultContext) -> str:
    one, other = context.random.sample(context.cluster.brokers, 2)
    context.cluster.network.cut_one_way(one.member, other.member)
    return _heal_later(context, f"cut the way from broker {one.node_id} to {other.node_id}")


def isolate(context: FaultContext) -> str:
    broker = context.victim()
    context.cluster.network.isolate(broker.member)
    return _heal_later(context, f"isolate broker {broker.node_id}")


def cut_from_zookeeper(context: FaultContext) -> str:
    broker = context.victim()
    for number in range(1, len(context.cluster.zookeeper) + 1):
        context.cluster.network.cut(broker.member, f"z{number}")
    return _heal_later(context, f"cut broker {broker.node_id} from ZooKeeper")


# ---------------------------------------------------------------------------------------------------- ZooKeeper


def restart_zookeeper(context: FaultContext) -> str:
    servers = context.cluster.zookeeper
    for server in servers:
        server.kill()
    context.wait(DOWN_S)
    for server in servers:
        server.spawn()
    for server in servers:
        server.wait_until_ready()
    return "kill -9 ZooKeeper, and start it again"


def kill_zookeeper_leader(context: FaultContext) -> str:
    leader = next((server for server in context.cluster.zookeeper if "Mode: leader" in server.ask("srvr")), None)
    if leader is None:
        context.problems.append("no server of ZooKeeper says that it leads")
        return "kill nobody"
    leader.kill()
    context.wait(DOWN_S)
    leader.start()
    return f"kill -9 {leader.name}, the leader of its ensemble"


# ---------------------------------------------------------------------------------------------------- disks


def fill_disk(context: FaultContext) -> str:
    """A broker that finds no room stops to serve what it could not write: others must lead that. With room it is
    started again.
    """
    broker = context.victim()
    broker.disk.fill(broker.pid, context.random.randint(*_SLACK_BYTES))
    try:
        context.wait(_ANY_S)
        problem = _wait_until_relieved(context, broker)
        if problem:
            context.problems.append(problem)
    finally:
        broker.disk.free(broker.pid if broker.is_running else None)
    _start_again(broker)
    return f"fill the disk of broker {broker.node_id}"


def _wait_until_relieved(context: FaultContext, broker: Broker) -> str:
    """Clients write to every partition of their topics, so the broker soon finds no room in any."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        led = [
            f"{topic}-{index}"
            for (topic, index), state in sorted(context.cluster.partitions(broker).items())
            if topic in context.topics and state.leader_id == broker.node_id
        ]
        if not led:
            return ""
        if time.monotonic() > deadline:
            return f"broker {broker.node_id} leads {', '.join(led)} {DEADLINE_S:g} s after its disk was full"
        time.sleep(0.2)


def slow_disk(context: FaultContext) -> str:
    broker = context.any_broker()
    broker.terminate()
    broker.is_slow = True
    try:
        broker.start()
        context.wait(_ANY_S)
    finally:
        broker.is_slow = False
    _start_again(broker)
    return f"slow down the disk of broker {broker.node_id}"


def empty_disk(context: FaultContext) -> str:
    """Another machine takes the place of a broker, while the other two have everything."""
    broker = context.victim()
    broker.kill()
    for directory in broker.log_dirs:
        empty_directory(directory)
    if context.random.random() < 0.5:
        context.wait(DOWN_S)
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


def recreate_topic(context: FaultContext) -> str:
    """A topic is deleted and made again while a broker with a replica is down: that one must not bring it back."""
    cluster = context.cluster
    cluster.delete_topic(_RECREATED_TOPIC)
    cluster.create_topic(_RECREATED_TOPIC, 1)
    _send(cluster, "old")
    broker = context.any_broker()
    broker.kill()
    # Until its death is known, one of the two replicas may be placed on it: two in sync are needed for each record.
    unaware = cluster.wait_until_away(broker, DEADLINE_S)
    cluster.delete_topic(_RECREATED_TOPIC)
    cluster.create_topic(_RECREATED_TOPIC, 1, 2)
    _send(cluster, "new")
    broker.start()
    problem = unaware or cluster.wait_until_in_sync(DEADLINE_S)
    if problem:
        context.problems.append(f"the topic that was made again: {problem}")
    messages = read_everything(cluster.bootstrap_servers, [(_RECREATED_TOPIC, 0)])
    values = [(message.value() or b"").decode() for message in messages]
    if values != [f"new {number}" for number in range(_RECREATED_RECORDS)]:
        context.problems.append(f"the topic that was made again holds {values}")
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
