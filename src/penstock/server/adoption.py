"""Brings the data of a single node into a cluster, while neither runs on it. Every step may be the last one before a
crash: the next run goes on.

The steps, in their order:
1. CHECKED. Nothing is written yet. What collides is refused here.
2. MARKED. The node's own store says that the node is on its way. From here on no broker starts on the directories: not
   a single one, which would hand out what is the cluster's by now, nor one of the cluster, which would delete the files
   of topics that the cluster does not know yet.
3. FOUNDED. The cluster is there: an empty ensemble gets the node's cluster id. A cluster in which nobody has logged in
   yet gets the node's secret of logins.
4. PRODUCER_IDS. The cluster's counter of producer ids is past those of the node.
5. METADATA. One change of the metadata brings topics, settings, users and rights. It is made or not made, however large
   it is.
6. DIRECTORIES. `meta.properties` names the cluster and the broker's id there.
7. FINISHED. The node's own store is put away under another name.

Where a run is refused after the mark was made, and the metadata are not in the cluster, the mark is taken back.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from penstock.cluster.controller.registration import ensure_cluster
from penstock.cluster.controller.takeover import change_from_outside
from penstock.cluster.decisions.adoption import AdoptionError, Newcomer, decide_adoption, is_adopted
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.login_secret import read_login_secret
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Node, Store, StoreError, StoreErrorKind, parent_of
from penstock.cluster.store.sqlite import SqliteStore
from penstock.cluster.store.transactions import write_operation
from penstock.cluster.store.znodes import AdoptionMark
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.types import TopicPartition
from penstock.log.formats import names
from penstock.log.formats.metadata_files import DirectoryIdentity, decode_meta_properties, encode_meta_properties
from penstock.log.storage.files import Files
from penstock.server.stores import ADOPTED_FILE, METADATA_FILE

_StoreKind = TypeVar("_StoreKind", bound=Store)

# What a store may hold, by parent. What is not here would be lost, so it is refused.
_CARRIED = {
    "/": {
        "brokers",
        "cluster",
        "config",
        "controller",
        "controller_epoch",
        "delegation_token",
        "feature",
        "kafka-acl",
        "kafka-acl-extended",
        "latest_producer_id_block",
        "penstock",
    },
    "/brokers": {"ids", "seqid", "topics"},
    "/cluster": {"id"},
    "/config": {"brokers", "clients", "groups", "ips", "tags", "topics", "users"},
    "/penstock": {"adoption", "brokers", "log", "login_secret", "picture", "policies", "snapshots"},
}


class AdoptionStep(enum.Enum):
    CHECKED = "nothing stands in the way"
    MARKED = "no broker starts on the directory until this is done"
    FOUNDED = "the cluster is there"
    PRODUCER_IDS = "producer ids go on behind those of the node"
    METADATA = "topics, settings, users and rights are in the cluster"
    DIRECTORIES = "the directory belongs to the cluster"
    FINISHED = "done"


class Adopted(NamedTuple):
    """What came of it."""

    cluster_id: str
    node_id: int
    topic_count: int
    partition_count: int
    was_finished: bool = False  # before this run


class Adoption:
    def __init__(
        self,
        paths: Sequence[Path],
        open_cluster: Callable[[], Awaitable[Store]],
        clock: Clock,
        reached: Callable[[AdoptionStep], None],
        *,
        node_id: int | None = None,
    ) -> None:
        """`paths` are all data directories of the node. `node_id` is the id that it is to have in the cluster; None
        leaves it the id that it has. `reached` is told of each step when it is done.
        """
        self._paths = list(dict.fromkeys(path.absolute() for path in paths))
        self._open_cluster = open_cluster
        self._clock = clock
        self._reached = reached
        self._wanted_id = node_id
        self._files = Files()

    async def run(self) -> Adopted:
        """Raises AdoptionError, StoreError and OSError. Each run that fails may be repeated."""
        with _locked(self._files, self._paths):
            identities = {path: _identity(self._files, path) for path in self._paths}
            home = self._find_store(identities)
            if home is None:
                return await self._nothing_left(identities)
            async with _opened(SqliteStore.open(home / METADATA_FILE)) as own:
                adopted = await self._bring(own, identities)
            for path, identity in identities.items():
                after = identity._replace(node_id=adopted.node_id, cluster_id=adopted.cluster_id)
                if after != identity:
                    self._files.write_atomically(path / names.META_PROPERTIES, encode_meta_properties(after))
                self._files.unlink(path / names.METADATA_NUMBER)  # the cluster counts for itself
            self._reached(AdoptionStep.DIRECTORIES)
            self._files.rename(home / METADATA_FILE, home / ADOPTED_FILE)
            self._files.sync_directory(home)
            self._reached(AdoptionStep.FINISHED)
        return adopted

    # ---------------------------------------------------------------------------------------- the directories

    def _find_store(self, identities: dict[Path, DirectoryIdentity]) -> Path | None:
        """The directory with the node's own store; None where the node was adopted before."""
        for path in identities:
            if self._files.exists(path / METADATA_FILE):
                return path
        if any(self._files.exists(path / ADOPTED_FILE) for path in identities):
            return None
        listed = ", ".join(map(str, identities))
        raise AdoptionError(
            f"{listed}: there is no {METADATA_FILE}, so no single node keeps its metadata here",
            "Name all directories of the node's log.dirs; the first one of them has the file.",
        )

    async def _nothing_left(self, identities: dict[Path, DirectoryIdentity]) -> Adopted:
        async with _opened(self._open_cluster()) as cluster:
            cluster_id = await _cluster_id(cluster)
            image = None if cluster_id is None else await load_image(cluster)
        identity = next(iter(identities.values()))
        if image is None or {each.cluster_id for each in identities.values()} != {image.cluster_id}:
            raise AdoptionError(
                f"the directory belongs to cluster {identity.cluster_id}, which this ZooKeeper does not have",
                "It was adopted before. Start its broker with the zookeeper.connect of that cluster.",
            )
        if self._wanted_id not in (None, identity.node_id):
            raise AdoptionError(f"the directory was adopted before, as broker {identity.node_id}")
        return _count(image, identity.node_id, was_finished=True)

    def _check_partitions(self, image: MetadataImage) -> None:
        """Every partition has a directory from the moment on at which its topic is there."""
        present = {name for path in self._paths for name in self._files.list_directories(path)}
        for topic in image.topics.values():
            for state in topic.partitions:
                name = names.partition_directory(TopicPartition(topic.name, state.partition))
                if name not in present:
                    raise AdoptionError(
                        f"the files of {topic.name}-{state.partition} are not in {', '.join(map(str, self._paths))}",
                        "Name all directories of the node's log.dirs: --data may be repeated.",
                    )

    # ---------------------------------------------------------------------------------------- the metadata

    async def _bring(self, own: SqliteStore, identities: dict[Path, DirectoryIdentity]) -> Adopted:
        await _check_known(own)
        image = await load_image(own)
        mark = await _read_mark(own)
        former_id = _only_id(identities, image.cluster_id, mark)
        newcomer = Newcomer(image, former_id, self._node_id(former_id, mark))
        self._check_partitions(image)
        async with _opened(self._open_cluster()) as cluster:
            cluster_id = await _cluster_id(cluster) or image.cluster_id
            if mark is not None and mark.cluster_id != cluster_id:
                raise AdoptionError(
                    f"an earlier run has begun to bring this node into cluster {mark.cluster_id}, not {cluster_id}",
                    "Let it finish with the --zookeeper of that cluster.",
                )
            try:
                return await self._bring_into(own, cluster, newcomer, mark, cluster_id)
            except AdoptionError:
                if not await _is_made(cluster, newcomer):
                    await _take_back(own, cluster, newcomer.node_id)  # the node may go on alone
                raise

    def _node_id(self, former_id: int, mark: AdoptionMark | None) -> int:
        if mark is None:
            return former_id if self._wanted_id is None else self._wanted_id
        if self._wanted_id not in (None, mark.node_id):
            raise AdoptionError(
                f"an earlier run has begun to bring this node in as broker {mark.node_id}",
                f"Let it finish: --broker-id {mark.node_id}, or leave the option out.",
            )
        return mark.node_id

    async def _bring_into(
        self, own: SqliteStore, cluster: Store, newcomer: Newcomer, mark: AdoptionMark | None, cluster_id: str
    ) -> Adopted:
        is_made = mark is not None and await _is_made(cluster, newcomer)
        if not is_made:
            await _check(cluster, newcomer)
            await _check_producer_ids(own, cluster, is_marked=mark is not None, node_id=newcomer.node_id)
        self._reached(AdoptionStep.CHECKED)
        if mark is None:
            await own.ensure_path(parent_of(znodes.ADOPTION))
            data = znodes.encode_adoption(AdoptionMark(cluster_id, newcomer.node_id))
            await own.create(znodes.ADOPTION, data)
        self._reached(AdoptionStep.MARKED)
        await _found(cluster, newcomer.node_id, cluster_id)
        await _carry_login_secret(own, cluster)
        self._reached(AdoptionStep.FOUNDED)
        await _raise_producer_ids(own, cluster, newcomer.node_id)
        self._reached(AdoptionStep.PRODUCER_IDS)
        if is_made:
            image = await load_image(cluster)
        else:
            registered = await _registered(cluster)
            image = await change_from_outside(
                cluster,
                lambda found: decide_adoption(found, newcomer, registered),
                self._clock.now_ms(),
                can_take_steps=False,  # a topic of the node's in the cluster says that all of them are there
            )
        self._reached(AdoptionStep.METADATA)
        return _count(image, newcomer.node_id)


@contextmanager
def _locked(files: Files, paths: Sequence[Path]) -> Iterator[None]:
    with ExitStack() as stack:
        for path in paths:
            if not path.is_dir():
                raise AdoptionError(f"{path} is no directory", "--data names the data directory of a single node.")
            try:
                stack.callback(files.lock(path / names.LOCK).close)
            except BlockingIOError:
                raise AdoptionError(f"{path} is in use by a broker", "Stop the broker first.") from None
        yield


@asynccontextmanager
async def _opened(opening: Awaitable[_StoreKind]) -> AsyncIterator[_StoreKind]:
    store = await opening
    try:
        yield store
    finally:
        await store.close()


def _identity(files: Files, path: Path) -> DirectoryIdentity:
    try:
        return decode_meta_properties(files.read_file(path / names.META_PROPERTIES))
    except FileNotFoundError:
        raise AdoptionError(f"{path} has no {names.META_PROPERTIES}: no broker has run on it") from None
    except ValueError as error:
        raise AdoptionError(f"{path / names.META_PROPERTIES} cannot be read: {error}") from error


def _only_id(identities: dict[Path, DirectoryIdentity], cluster_id: str, mark: AdoptionMark | None) -> int:
    """The id that the node had. A run before may have given directories their new identity."""
    former = set()
    for path, identity in identities.items():
        if mark is not None and (identity.cluster_id, identity.node_id) == mark:
            continue
        if identity.cluster_id != cluster_id:
            raise AdoptionError(
                f"{path} belongs to cluster {identity.cluster_id}, and the node's store to {cluster_id}"
            )
        former.add(identity.node_id)
    if len(former) > 1:
        raise AdoptionError(f"the directories belong to different nodes: {', '.join(map(str, sorted(former)))}")
    if former:
        return former.pop()
    assert mark is not None, "a directory without a mark has the identity of its node"
    return mark.node_id


async def _check_known(own: SqliteStore) -> None:
    for parent, known in _CARRIED.items():
        if parent != "/" and await own.read(parent) is None:
            continue
        unknown = [name for name in await own.children(parent) if name not in known]
        if unknown:
            listed = ", ".join(f"{parent.rstrip('/')}/{name}" for name in unknown)
            raise AdoptionError(
                f"the node's store holds what this version cannot bring into a cluster: {listed}",
                "A later version of Penstock wrote it. Use that version.",
            )


async def _read_mark(own: SqliteStore) -> AdoptionMark | None:
    node = await own.read(znodes.ADOPTION)
    return None if node is None or not node.data else znodes.decode_adoption(node.data)


async def _take_back(own: SqliteStore, cluster: Store, node_id: int) -> None:
    if await own.read(znodes.ADOPTION) is None:
        return
    mine, theirs = await _read_block(own), await _read_block(cluster)
    if mine is not None and theirs is not None and _is_same_block(mine, theirs, node_id):
        nothing = znodes.encode_producer_id_block(znodes.NO_PRODUCER_IDS, node_id)
        await cluster.compare_and_set(znodes.PRODUCER_ID_BLOCK, nothing, theirs.version)
    await own.delete(znodes.ADOPTION)


async def _cluster_id(cluster: Store) -> str | None:
    """None where nobody has made a cluster yet."""
    node = await cluster.read(znodes.CLUSTER_ID)
    return None if node is None else znodes.decode_cluster_id(node.data)


async def _is_made(cluster: Store, newcomer: Newcomer) -> bool:
    if await _cluster_id(cluster) is None or await cluster.read(znodes.TOPICS) is None:
        return False
    return is_adopted(await load_image(cluster), newcomer.image)


async def _registered(cluster: Store) -> set[int]:
    if await cluster.read(znodes.BROKER_IDS) is None:
        return set()
    return set(map(int, await cluster.children(znodes.BROKER_IDS)))


async def _check(cluster: Store, newcomer: Newcomer) -> None:
    """Without becoming the controller: a refusal disturbs no broker."""
    if await _cluster_id(cluster) is None:
        return
    decide_adoption(await load_image(cluster), newcomer, await _registered(cluster))


async def _found(cluster: Store, node_id: int, cluster_id: str) -> None:
    identity = BrokerConfig.parse({"broker.id": str(node_id)}).identity
    await ensure_cluster(cluster, identity, cluster_id)
    found = await _cluster_id(cluster)
    if found != cluster_id:
        raise AdoptionError(f"brokers have founded cluster {found} meanwhile", "Run the command again.")


async def _carry_login_secret(own: SqliteStore, cluster: Store) -> None:
    mine = await own.read(znodes.LOGIN_SECRET)
    if mine is not None:
        await read_login_secret(cluster, lambda _size: mine.data)


async def _check_producer_ids(own: SqliteStore, cluster: Store, *, is_marked: bool, node_id: int) -> None:
    """When the mark was made the cluster had no block, so a block past the node's comes after it. Any other one was
    claimed by a broker of the cluster, which has handed out what the node has handed out, too.
    """
    mine, theirs = await _read_block(own), await _read_block(cluster)
    if mine is None or theirs is None:
        return
    block = znodes.decode_producer_id_block(mine.data)
    is_later = znodes.decode_producer_id_block(theirs.data).first_producer_id > block.last_producer_id
    if is_marked and (is_later or _is_same_block(mine, theirs, node_id)):
        return
    raise AdoptionError(
        "both this node and the cluster have handed out ids to idempotent or transactional producers, the same ones",
        "Adopt the node before the cluster's first producer, or into an ensemble (or a path of one) of its own.",
    )


def _is_same_block(mine: Node, theirs: Node, node_id: int) -> bool:
    """Whether the cluster's block is the node's, as it was carried over."""
    return theirs.data == znodes.encode_producer_id_block(znodes.decode_producer_id_block(mine.data), node_id)


async def _raise_producer_ids(own: SqliteStore, cluster: Store, node_id: int) -> None:
    mine = await _read_block(own)
    if mine is None:
        return
    node = await cluster.read(znodes.PRODUCER_ID_BLOCK)
    if not _is_block(node):
        data = znodes.encode_producer_id_block(znodes.decode_producer_id_block(mine.data), node_id)
        try:
            await cluster.transaction([write_operation(znodes.PRODUCER_ID_BLOCK, node, data)])
        except StoreError as error:
            if error.kind not in (StoreErrorKind.NODE_EXISTS, StoreErrorKind.BAD_VERSION):
                raise
    await _check_producer_ids(own, cluster, is_marked=True, node_id=node_id)


async def _read_block(store: Store) -> Node | None:
    """None where nobody has claimed one."""
    node = await store.read(znodes.PRODUCER_ID_BLOCK)
    return node if _is_block(node) else None


def _is_block(node: Node | None) -> bool:
    return node is not None and znodes.decode_producer_id_block(node.data).size > 0


def _count(image: MetadataImage, node_id: int, *, was_finished: bool = False) -> Adopted:
    """The topics that the broker has."""
    counts = [sum(node_id in state.replicas for state in topic.partitions) for topic in image.topics.values()]
    return Adopted(image.cluster_id, node_id, sum(map(bool, counts)), sum(counts), was_finished)
