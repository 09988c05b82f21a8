"""Three brokers in this process, with real sockets between them: what their metrics tell, and what their dynamic
settings do.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from penstock.cluster.decisions.decision import IncrementalChange, NewTopic, RequestedChange
from penstock.cluster.decisions.reassignments import ReassignmentRequest
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.resources import ConfigOperation, ConfigResourceType
from penstock.core.log_settings import NO_LIMIT
from penstock.protocol.errors import ErrorCode
from penstock.server.broker_server import BrokerServer
from penstock.server.monitoring.exposition import Exposition
from tests.unit.log.support import NOW, batch

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "false",  # so that a stop looks like a death to the others
    "replica.fetch.wait.max.ms": "50",
}
NODES = (1, 2, 3)
CONTROLLER = "kafka_controller_kafkacontroller_"
REPLICAS = "kafka_server_replicamanager_"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # whatever it is, nobody tells us of it
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def three_brokers(directory: Path) -> AsyncIterator[dict[int, BrokerServer]]:
    """Broker 1 is the controller."""
    tree = MemoryTree()
    async with contextlib.AsyncExitStack() as stack:
        servers: dict[int, BrokerServer] = {}
        for node_id in NODES:
            own = {"node.id": str(node_id), "log.dirs": str(directory / str(node_id))}
            servers[node_id] = await BrokerServer.start(
                BrokerConfig.parse({**SETTINGS, **own}), store=MemoryStore(tree)
            )
            stack.push_async_callback(servers[node_id].stop)
        await until(lambda: all(len(each.broker.metadata.image.brokers) == 3 for each in servers.values()))
        yield servers


async def create(servers: dict[int, BrokerServer], name: str, *assignments: tuple[int, ...]) -> None:
    topic = NewTopic(name, assignments=tuple(enumerate(assignments)), configs=(("min.insync.replicas", "2"),))
    (result,) = await servers[1].broker.metadata.create_topics([topic])
    assert result.code is ErrorCode.NONE
    await until(lambda: all(name in each.broker.metadata.image.topics for each in servers.values()))


class Scrape:
    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, name: str) -> float:
        """Of one sample, by its name and labels."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.text, re.MULTILINE)
        assert found is not None, f"{name} is not told"
        return float(found[1])


async def scrape(server: BrokerServer) -> Scrape:
    exposition = Exposition(server.broker.metrics, "test", server.broker.slices)
    return Scrape((await exposition.render_metrics()).decode())


async def scrape_all(servers: dict[int, BrokerServer]) -> dict[int, Scrape]:
    return {node_id: await scrape(server) for node_id, server in servers.items() if not server.is_stopping}


def told(scrapes: dict[int, Scrape], name: str) -> list[float]:
    return [each[name] for each in scrapes.values()]


def test_metrics_of_controller_and_others_tell_what_is_wrong_when_a_broker_dies(tmp_path: Path) -> None:
    async def run() -> None:
        async with three_brokers(tmp_path) as servers:
            await create(servers, "orders", (1, 2, 3), (2, 3, 1), (3, 1, 2))
            await create(servers, "alone", (3,))
            before = await scrape_all(servers)
            assert told(before, CONTROLLER + "activecontrollercount") == [1, 0, 0]
            assert told(before, CONTROLLER + "activebrokercount") == [3, 0, 0]
            assert told(before, CONTROLLER + "fencedbrokercount") == [0, 0, 0]
            assert told(before, CONTROLLER + "globaltopiccount") == [2, 0, 0]
            assert told(before, CONTROLLER + "globalpartitioncount") == [4, 0, 0]
            assert told(before, CONTROLLER + "offlinepartitionscount") == [0, 0, 0]
            assert told(before, CONTROLLER + "preferredreplicaimbalancecount") == [0, 0, 0]
            assert told(before, REPLICAS + "partitioncount") == [3, 3, 4]
            assert told(before, REPLICAS + "leadercount") == [1, 1, 2]
            for name in ("underreplicatedpartitions", "underminisrpartitioncount", "reassigningpartitions"):
                assert told(before, REPLICAS + name) == [0, 0, 0]
            assert told(before, REPLICAS + "atminisrpartitioncount") == [0, 0, 1]  # the minimum is its only replica
            elections = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
            elected = before[1][elections]

            await servers[3].stop()
            await until(lambda: all(len(servers[each].broker.metadata.image.brokers) == 2 for each in (1, 2)))
            after = await scrape_all(servers)
            assert told(after, CONTROLLER + "activebrokercount") == [2, 0]
            assert told(after, CONTROLLER + "fencedbrokercount") == [1, 0]
            assert told(after, CONTROLLER + "offlinepartitionscount") == [1, 0]
            assert told(after, CONTROLLER + "preferredreplicaimbalancecount") == [2, 0]
            assert told(after, REPLICAS + "leadercount") == [2, 1]
            assert told(after, REPLICAS + "underreplicatedpartitions") == [2, 1]
            assert told(after, REPLICAS + "atminisrpartitioncount") == [2, 1]
            assert told(after, REPLICAS + "underminisrpartitioncount") == [0, 0]
            assert after[1][elections] > elected
            assert after[1]["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
            assert after[1]["kafka_controller_controllereventmanager_eventqueuesize"] == 0
            assert after[1]["kafka_controller_controllereventmanager_eventqueueprocessingtimems_count"] > 0
            assert after[2]["kafka_controller_controllereventmanager_eventqueuetimems_count"] == 0

            await servers[2].stop()
            await until(lambda: len(servers[1].broker.metadata.image.brokers) == 1)
            last = await scrape(servers[1])
            assert last[REPLICAS + "underminisrpartitioncount"] == 3

    asyncio.run(run())


def test_replicated_bytes_are_told_on_both_sides_when_records_are_written(tmp_path: Path) -> None:
    async def run() -> None:
        async with three_brokers(tmp_path) as servers:
            await create(servers, "orders", (1, 2, 3))
            partition = servers[1].broker.partitions.find("orders", 0)
            assert partition is not None
            records = batch("x" * 1_000)
            partition.append(records, -1, NOW)
            assert await partition.wait_until_replicated(1, 20_000) is ErrorCode.NONE
            scrapes = await scrape_all(servers)
            size = len(records)
            assert told(scrapes, "kafka_server_brokertopicmetrics_replicationbytesout_total") == [2 * size, 0, 0]
            assert told(scrapes, "kafka_server_brokertopicmetrics_replicationbytesin_total") == [0, size, size]
            assert told(scrapes, "kafka_server_brokertopicmetrics_reassignmentbytesout_total") == [0, 0, 0]
            assert told(scrapes, 'kafka_server_replicafetchermanager_maxlag{clientId="Replica"}') == [0, 0, 0]
            assert told(scrapes, "kafka_server_leaderreplication_byte_rate") == [0, 0, 0]

    asyncio.run(run())


def test_a_move_under_a_throttle_is_told_by_both_sides_until_it_ends(tmp_path: Path) -> None:
    async def run() -> None:
        async with three_brokers(tmp_path) as servers:
            await create(servers, "orders", (1, 2))
            partition = servers[1].broker.partitions.find("orders", 0)
            assert partition is not None
            for _ in range(5):
                partition.append(batch("x" * 1_000), -1, NOW)
            assert await partition.wait_until_replicated(5, 20_000) is ErrorCode.NONE
            await alter(servers[1], ConfigResourceType.BROKER, "", leader_replication_throttled_rate="1")
            await alter(servers[1], ConfigResourceType.BROKER, "", follower_replication_throttled_rate="1")
            everything = {f"{side}_replication_throttled_replicas": "*" for side in ("leader", "follower")}
            await alter(servers[1], ConfigResourceType.TOPIC, "orders", **everything)
            move = ReassignmentRequest("orders", 0, (1, 3))
            (result,) = await servers[1].broker.metadata.controller_api.reassign_partitions([move])
            assert result.code is ErrorCode.NONE
            await until(lambda: servers[3].broker.metrics.replicas.reassigned_bytes_in > 0)  # one batch

            during = await scrape_all(servers)
            assert told(during, REPLICAS + "reassigningpartitions") == [1, 0, 0]
            assert told(during, REPLICAS + "underreplicatedpartitions") == [0, 0, 0]
            name = "kafka_server_brokertopicmetrics_reassignmentbytes"
            assert during[1][f"{name}out_total"] == during[3][f"{name}in_total"] > 0
            assert during[1]["kafka_server_leaderreplication_byte_rate"] > 1
            assert during[3]["kafka_server_followerreplication_byte_rate"] > 1
            labels = 'clientId="ReplicaFetcherThread-0-1",topic="orders",partition="0"'
            assert during[3][f"kafka_server_fetcherlagmetrics_consumerlag{{{labels}}}"] == 4
            assert during[3]['kafka_server_replicafetchermanager_maxlag{clientId="Replica"}'] == 4

            await alter(servers[1], ConfigResourceType.TOPIC, "orders", **dict.fromkeys(everything))
            await until(lambda: partition.state.replicas == (1, 3) and not partition.state.removing)
            assert set(partition.state.isr) == {1, 3}
            after = await scrape_all(servers)
            assert told(after, REPLICAS + "reassigningpartitions") == [0, 0, 0]
            assert after[1][REPLICAS + "isrexpands_total"] == 1
            assert "kafka_server_fetcherlagmetrics_consumerlag{" not in after[3].text

    asyncio.run(run())


async def alter(server: BrokerServer, resource: ConfigResourceType, name: str, **settings: str | None) -> None:
    changes = tuple(
        RequestedChange(key.replace("_", "."), ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
        for key, value in settings.items()
    )
    (result,) = await server.broker.metadata.incremental_alter_configs([IncrementalChange(resource, name, changes)])
    assert result.code is ErrorCode.NONE, result.message


def limits(servers: dict[int, BrokerServer]) -> list[tuple[int, int]]:
    """Of leader and follower, for each broker."""
    found = []
    for server in servers.values():
        assert server._cluster_links is not None
        replicas = server._cluster_links.replicas
        assert replicas is not None
        found.append((replicas.throttles.leader.limiter.limit, replicas.throttles.follower.limiter.limit))
    return found


def test_throttles_follow_the_dynamic_settings_of_brokers_and_topics_when_these_change(tmp_path: Path) -> None:
    async def run() -> None:
        async with three_brokers(tmp_path) as servers:
            await create(servers, "orders", (1, 2, 3))
            controller, broker = servers[1], ConfigResourceType.BROKER
            assert limits(servers) == [(NO_LIMIT, NO_LIMIT)] * 3
            await alter(controller, broker, "", leader_replication_throttled_rate="5000")
            await alter(controller, broker, "2", leader_replication_throttled_rate="700")
            await alter(controller, broker, "2", follower_replication_throttled_rate="0")
            await until(lambda: limits(servers) == [(5_000, NO_LIMIT), (700, 0), (5_000, NO_LIMIT)])
            contexts = [server.broker.partitions.context for server in servers.values()]
            assert all(context.throttle is None for context in contexts)
            topic = ConfigResourceType.TOPIC
            await alter(controller, topic, "orders", leader_replication_throttled_replicas="0:1,0:2")
            await until(lambda: [context.throttle is None for context in contexts] == [False, False, True])
            await alter(controller, topic, "orders", leader_replication_throttled_replicas=None)
            await until(lambda: all(context.throttle is None for context in contexts))
            await alter(controller, broker, "", leader_replication_throttled_rate=None)
            await alter(
                controller,
                broker,
                "2",
                leader_replication_throttled_rate=None,
                follower_replication_throttled_rate=None,
            )
            await until(lambda: limits(servers) == [(NO_LIMIT, NO_LIMIT)] * 3)

    asyncio.run(run())
