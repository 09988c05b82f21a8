"""What writers feel while replicas of many partitions move to another broker, beside what they felt just before.

Two brokers have all replicas of a topic, and lead half of its partitions each. Then the third broker gets a replica of
each partition in the place of another one, throttled. A third of the leaders goes with it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from bench.cluster.clusters import NODE_IDS, BrokerCluster, ClusterContender
from bench.cluster.states import wait_for_states
from bench.cluster.topics import request_creation
from bench.contenders import CpuMeter
from bench.errors import BenchError
from bench.loads import PATIENCE_S, Figures, Scale
from penstock.admin import NewTopic
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from proof.cluster.administration import Administration
from proof.moving.brokers import SteadyBrokers
from proof.moving.clients import Writer

TOPIC = "moved"
OLD, NEW = NODE_IDS[:2], NODE_IDS[2]
BYTES_OF_A_PARTITION = 50_000
RECORD_BYTES = 100
RECORDS_PER_SECOND = 200
QUIET_S = 10.0
# Nodes of Kafka need some 25 s on two cores until they keep up with this. Nothing is told of a cluster that does not.
STEP_S, KEPT_UP_S, WARM_UP_PATIENCE_S = 2.0, 0.1, 120.0
# Some ten seconds for 500 partitions.
THROTTLE = 2_500_000
# As rarely as operators' tools ask. Each question costs the brokers something, and the quiet time has none.
POLL_S = 1.0
MOVE_PATIENCE_S = 300.0


def measure_moves(contender: ClusterContender, directory: Path, scale: Scale) -> Figures:
    try:
        with contender.make(directory, {"auto.leader.rebalance.enable": "false"}) as cluster:
            addresses = {node_id: (each.host, each.port) for node_id, each in cluster.brokers.items()}
            brokers = SteadyBrokers(addresses, cluster.controller_id(), PATIENCE_S)
            try:
                return _measure(cluster, brokers, scale.partitions_moved)
            finally:
                brokers.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _measure(cluster: BrokerCluster, brokers: SteadyBrokers, count: int) -> Figures:
    administration, meter = Administration(brokers), CpuMeter()
    before = [[OLD[index % 2], OLD[(index + 1) % 2]] for index in range(count)]
    _create(cluster, before)
    writer = Writer(cluster.bootstrap_servers, TOPIC, count, RECORDS_PER_SECOND, RECORD_BYTES)
    writer.fill(BYTES_OF_A_PARTITION)
    writer.start()
    _warm_up(writer)
    quiet_from, quiet = time.monotonic(), CpuMeter()
    with quiet.running(*cluster.servers):
        time.sleep(QUIET_S)
    administration.throttle(THROTTLE, [TOPIC])
    number, began = _metadata_number(brokers), time.monotonic()
    with meter.running(*cluster.servers):
        administration.reassign({(TOPIC, index): _replaced(index, nodes) for index, nodes in enumerate(before)})
        problem = administration.wait_until_moved(MOVE_PATIENCE_S, POLL_S)
    ended, changes = time.monotonic(), _metadata_number(brokers) - number
    writer.stop()
    if problem or writer.errors:
        raise BenchError(cluster.describe(f"did not move {count} partitions: {problem} {dict(writer.errors)}"))
    still, moving = writer.times.between(quiet_from, began), writer.times.between(began, ended)
    kept = writer.times.between(began, ended, lambda index: not _loses_leader(index))
    return {
        "moves-quiet-p99": still.p99_s * 1000,
        "moves-p99": moving.p99_s * 1000,
        "moves-times": moving.p99_s / still.p99_s,
        "moves-kept-times": kept.p99_s / still.p99_s,
        "moves-p50-times": moving.median_s / still.median_s,
        "moves-seconds": ended - began,
        # Without what the writers alone cost.
        "moves.cpu": meter.seconds - quiet.seconds * (ended - began) / QUIET_S,
        **({} if cluster.store is None else {"moves-changes": changes}),
    }


def _metadata_number(brokers: SteadyBrokers) -> int:
    """Of the newest change of the metadata that the first broker has applied."""
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    return brokers.ask(NODE_IDS[0], request, ApiVersionsResponse).finalized_features_epoch


def _create(cluster: BrokerCluster, assignment: Sequence[Sequence[int]]) -> None:
    request_creation(cluster, NewTopic(TOPIC, replicas=assignment))
    wait_for_states(
        cluster,
        lambda state: (
            state.partition_count >= len(assignment)
            and not (state.offline or state.unsettled or state.under_replicated)
        ),
    )


def _warm_up(writer: Writer) -> None:
    deadline = time.monotonic() + WARM_UP_PATIENCE_S
    while time.monotonic() < deadline:
        began = time.monotonic()
        time.sleep(2 * STEP_S)
        # Not what has just been handed over: the slow ones of that are not back yet.
        if writer.times.between(began, began + STEP_S).p99_s < KEPT_UP_S:
            return
    raise BenchError(f"a p99 below {KEPT_UP_S:g} s was not seen within {WARM_UP_PATIENCE_S:g} s")


def _replaced(index: int, nodes: Sequence[int]) -> list[int]:
    """The new broker in the place of the leader of every third partition, and of the follower of the others."""
    return [NEW, nodes[1]] if _loses_leader(index) else [nodes[0], NEW]


def _loses_leader(index: int) -> bool:
    return index % 3 == 0
