"""A single node comes into a cluster: stopped after any step it goes on, and nothing starts on its files meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.decisions.adoption import AdoptionError
from penstock.cluster.decisions.decision import NewTopic, TopicSelector
from penstock.cluster.decisions.security.users import Upsertion, scram_users
from penstock.cluster.image import settings_with_tags
from penstock.cluster.image_loader import load_image
from penstock.cluster.login_secret import read_login_secret
from penstock.cluster.metadata import Metadata
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import Store, TransactionLimit
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.keys.authorization import TAGS_KEY
from penstock.core.metrics.cluster_counters import StoreMetrics
from penstock.log.directories.log_directories import LogDirectoryError
from penstock.log.formats import names
from penstock.log.formats.metadata_files import DirectoryIdentity, decode_meta_properties, encode_meta_properties
from penstock.security.sasl.scram import MIN_ITERATIONS, SHA_512
from penstock.server.adoption import Adopted, Adoption, AdoptionStep
from penstock.server.broker_server import BrokerServer
from penstock.server.offline_passwords import write_passwords
from penstock.server.stores import ADOPTED_FILE, METADATA_FILE, open_store
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, config

ALICE = Upsertion("alice", SHA_512.code, MIN_ITERATIONS, b"salt", b"salted")
# So small that a change of several topics needs more than one transaction.
LIMIT = TransactionLimit(20_000, 30)


class KilledError(Exception):
    """The process was killed."""


class Scene:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = MemoryTree()

    def properties(self, node_id: int = 1) -> dict[str, str]:
        return {
            "log.dirs": str(self.path),
            "broker.id": str(node_id),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            # The cluster's other broker has no port that could be asked.
            "controlled.shutdown.enable": "false",
        }

    async def start(self, store: Store | None = None, node_id: int = 1) -> BrokerServer:
        return await BrokerServer.start(BrokerConfig.parse(self.properties(node_id)), store=store)

    async def live_alone(self) -> str:
        """Returns the cluster's id."""
        server = await self.start()
        metadata = server.broker.metadata
        await metadata.create_topics([NewTopic("orders", 3, 1, configs=(("retention.ms", "5000"),)), NewTopic("b", 9)])
        await metadata.allocate_producer_id_block()
        await server.stop()
        return metadata.image.cluster_id

    def adoption(
        self, until: AdoptionStep | None = None, node_id: int | None = None, steps: list[AdoptionStep] | None = None
    ) -> Coroutine[Any, Any, Adopted]:
        async def open_cluster() -> Store:
            return self.cluster()

        def reached(step: AdoptionStep) -> None:
            if steps is not None:
                steps.append(step)
            if step is until:
                raise KilledError

        return Adoption([self.path], open_cluster, SystemClock(), reached, node_id=node_id).run()

    def cluster(self) -> MemoryStore:
        return MemoryStore(self.tree, transaction_limit=LIMIT)

    async def served(self, node_id: int = 1) -> set[str]:
        """The topics that a broker of the cluster serves."""
        server = await self.start(self.cluster(), node_id)
        partitions = server.broker.partitions
        assert all(partition.log.offline_reason is None for partition in partitions)
        assert all(partition.leading is not None or len(partition.state.replicas) == 1 for partition in partitions)
        found = {partition.topic_partition.topic for partition in partitions}
        await server.stop()
        return found

    def identity(self) -> tuple[int, str]:
        node_id, cluster_id, _ = decode_meta_properties((self.path / names.META_PROPERTIES).read_bytes())
        return node_id, cluster_id


def played(test: Callable[[Scene], Coroutine[Any, Any, None]], tmp_path: Path) -> None:
    asyncio.run(test(Scene(tmp_path / "data")))


@pytest.mark.parametrize("step", AdoptionStep)
@pytest.mark.parametrize("node_id", [1, 7])
def test_adoption_goes_on_when_it_was_stopped_after_any_step(tmp_path: Path, step: AdoptionStep, node_id: int) -> None:
    async def test(scene: Scene) -> None:
        cluster_id = await scene.live_alone()
        with pytest.raises(KilledError):
            await scene.adoption(step, node_id)
        if step is AdoptionStep.CHECKED:
            await (await scene.start()).stop()  # nothing has begun
        else:
            with pytest.raises(LogDirectoryError, match=r"adopt|belongs to a cluster"):
                await scene.start()
        adopted = await scene.adoption(node_id=None if step is not AdoptionStep.CHECKED else node_id)
        assert adopted == Adopted(cluster_id, node_id, 2, 12, was_finished=step is AdoptionStep.FINISHED)
        assert scene.identity() == (node_id, cluster_id)
        assert await scene.served(node_id) == {"orders", "b"}
        with pytest.raises(LogDirectoryError, match="belongs to a cluster"):
            await scene.start()

    played(test, tmp_path)


def test_producer_ids_go_on_behind_those_of_the_node_when_it_is_adopted(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.live_alone()
        await scene.adoption()
        server = await scene.start(scene.cluster())
        block = await server.broker.metadata.allocate_producer_id_block()
        await server.stop()
        assert block.first_producer_id >= 1_000

    played(test, tmp_path)


async def founded(scene: Scene, *topics: NewTopic, node_id: int = 2) -> tuple[MemoryStore, Metadata]:
    """A cluster with one broker that has no disk."""
    store = scene.cluster()
    metadata = await Metadata.open(store, config(broker_id=str(node_id)), ENDPOINTS, FixedClock())
    await metadata.create_topics(topics)
    return store, metadata


def test_cluster_that_runs_takes_the_node_in_under_its_own_id_when_nothing_collides(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.live_alone()
        store, metadata = await founded(scene, NewTopic("theirs", 1, 1))
        adopted = await scene.adoption()
        assert adopted.cluster_id == metadata.image.cluster_id
        assert scene.identity() == (1, adopted.cluster_id)
        assert await scene.served() == {"orders", "b"}
        (created,) = await metadata.create_topics([NewTopic("later", 1, 1)])  # it is the controller again
        assert created.message is None
        assert set(metadata.image.topics) == {"theirs", "orders", "b", "later"}
        await metadata.close()
        await store.close()

    played(test, tmp_path)


@pytest.mark.parametrize("step", [None, AdoptionStep.MARKED, AdoptionStep.FOUNDED, AdoptionStep.PRODUCER_IDS])
def test_node_goes_on_alone_when_its_adoption_is_refused(tmp_path: Path, step: AdoptionStep | None) -> None:
    async def test(scene: Scene) -> None:
        await scene.live_alone()
        if step is not None:
            with pytest.raises(KilledError):
                await scene.adoption(step)
        store, metadata = await founded(scene, NewTopic("orders", 1, 1))
        with pytest.raises(AdoptionError, match=r"orders|begun to bring"):
            await scene.adoption()
        await metadata.close()
        await store.close()
        if metadata.image.cluster_id == scene.identity()[1] or step is None:
            await (await scene.start()).stop()

    played(test, tmp_path)


def test_adoption_is_refused_when_both_sides_have_handed_out_producer_ids(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.live_alone()
        store, metadata = await founded(scene)
        await metadata.allocate_producer_id_block()
        with pytest.raises(AdoptionError, match="handed out ids"):
            await scene.adoption()
        await metadata.close()
        await store.close()

    played(test, tmp_path)


def test_adoption_is_refused_when_a_broker_runs_on_the_directory(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        server = await scene.start()
        with pytest.raises(AdoptionError, match="in use by a broker"):
            await scene.adoption()
        await server.stop()

    played(test, tmp_path)


def test_adoption_is_refused_when_files_of_a_partition_are_elsewhere(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.live_alone()
        (scene.path / "orders-1").rename(tmp_path / "orders-1")
        with pytest.raises(AdoptionError, match="orders-1 are not in"):
            await scene.adoption()

    played(test, tmp_path)


def test_adoption_is_refused_when_the_store_holds_what_nobody_would_carry_over(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.live_alone()
        own = await SqliteStore.open(scene.path / METADATA_FILE)
        await own.ensure_path("/config/secrets")
        await own.close()
        with pytest.raises(AdoptionError, match="/config/secrets"):
            await scene.adoption()

    played(test, tmp_path)


def test_every_node_of_a_store_is_known_when_the_node_is_adopted(tmp_path: Path) -> None:
    """Each path comes along, or belongs to the single node's past."""

    async def test(scene: Scene) -> None:
        await scene.live_alone()
        own = await SqliteStore.open(scene.path / METADATA_FILE)
        for path in (*znodes.PERSISTENT_PATHS, *security_nodes.ROOTS, znodes.LOGIN_SECRET):
            await own.ensure_path(path)
        await own.close()
        steps: list[AdoptionStep] = []
        await scene.adoption(steps=steps)
        assert steps == list(AdoptionStep)
        assert (scene.path / ADOPTED_FILE).exists()

    played(test, tmp_path)


def test_tags_of_a_deleted_topic_come_along_when_the_node_is_adopted(tmp_path: Path) -> None:
    """The node was refused as that of a later version."""

    async def test(scene: Scene) -> None:
        await scene.live_alone()
        server = await scene.start()
        metadata = server.broker.metadata
        await metadata.create_topics([NewTopic("people", 1, 1, configs=((TAGS_KEY, "pii"),))])
        await metadata.delete_topics([TopicSelector(name="people")])
        await server.stop()
        await scene.adoption()
        image = await load_image(scene.cluster())
        assert settings_with_tags(image, "people") == {TAGS_KEY: "pii"}

    played(test, tmp_path)


def test_users_and_the_secret_of_logins_come_along_when_the_node_is_adopted(tmp_path: Path) -> None:
    """A node with users was refused as that of a later version, once its users were in Kafka's nodes."""

    async def test(scene: Scene) -> None:
        await scene.live_alone()
        await write_passwords(scene.path, [ALICE], FixedClock())
        server = await scene.start()
        security = server.broker.metadata.image.security
        await server.stop()
        own = await SqliteStore.open(scene.path / METADATA_FILE)
        secret = await read_login_secret(own, lambda size: b"s" * size)
        await own.close()
        await scene.adoption()
        cluster = scene.cluster()
        assert scram_users(security) == ["alice"]
        assert (await load_image(cluster)).security == security
        assert await read_login_secret(cluster, lambda size: b"t" * size) == secret

    played(test, tmp_path)


def test_broker_of_a_cluster_does_not_start_when_the_directory_is_a_single_nodes(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.live_alone()
        settings = {**scene.properties(), "zookeeper.connect": "127.0.0.1:1"}
        with pytest.raises(LogDirectoryError, match="penstock cluster adopt --data"):
            await open_store(BrokerConfig.parse(settings), False, StoreMetrics())

    played(test, tmp_path)


def test_broker_of_a_cluster_leaves_no_store_behind_when_it_is_started_alone(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        identity = DirectoryIdentity(1, "another-cluster", None)
        (tmp_path / "alone").mkdir()
        (tmp_path / "alone" / names.META_PROPERTIES).write_bytes(encode_meta_properties(identity))
        settings = {"log.dirs": str(tmp_path / "alone")}
        with pytest.raises(LogDirectoryError, match=r"belongs to cluster another-cluster.*zookeeper\.connect"):
            await open_store(BrokerConfig.parse(settings), False, StoreMetrics())
        assert not (tmp_path / "alone" / METADATA_FILE).exists()

    played(test, tmp_path)
