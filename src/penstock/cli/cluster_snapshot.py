"""`penstock cluster snapshot` and `restore`: from options to the store and the brokers, and what the user is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.admin.look import ANSWER_TIMEOUT_S
from penstock.admin.state.cluster import min_in_sync_of
from penstock.cli import output
from penstock.cli.access.client_properties import translate_client_properties
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import make_connect
from penstock.cli.access.zookeeper import exit_code_of, open_store, read_store_config
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.text import plural
from penstock.client.addresses import Address
from penstock.cluster.decisions.restore_decisions import (
    Elected,
    LogEnd,
    ReplicaPlace,
    Waiting,
    find_leaderless,
    find_unled,
)
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.snapshots.capture import take_snapshot
from penstock.cluster.snapshots.document import Snapshot, SnapshotError, checksum_of, decode_snapshot, encode_snapshot
from penstock.cluster.snapshots.restoration import RestorationState
from penstock.cluster.snapshots.restore import begin_restore, try_finish
from penstock.cluster.store.interface import Store, StoreError
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.properties import read_properties
from penstock.health.measurements import read_log_ends, read_minimums
from penstock.protocol.errors import ApiError

_LOOK_EVERY_S = 0.5
_STORE_LOGIN = "Where ZooKeeper wants a login, give a broker's properties with --config: they have it."
_AGAIN = "Run the command again: it goes on where it stopped."


class RestoreOptions(NamedTuple):
    zookeeper: str | None
    config: Path | None
    command_config: Path | None
    force: str | None
    accept_loss: bool
    timeout_s: float


# ---------------------------------------------------------------------------------------- snapshot


def write_snapshot(file: Path, zookeeper: str | None, config: Path | None) -> None:
    broker_config = read_store_config(zookeeper, config)

    async def take() -> Snapshot:
        async with _opened(broker_config) as store:
            return await take_snapshot(store, SystemClock().now_ms())

    with _explained(_STORE_LOGIN):
        snapshot = asyncio.run(take())
    _write_private(file, encode_snapshot(snapshot))
    image = snapshot.image
    output.note(
        f"{file}: cluster {image.cluster_id} at position {image.number}, {plural(len(image.topics), 'topic')}, "
        f"{plural(_partition_count(image), 'partition')}."
    )


def _write_private(file: Path, data: bytes) -> None:
    """Whole or not at all, and for its owner alone: settings may hold what others should not read."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as temporary:
            temporary.write(data)
            temporary.flush()
            os.fsync(temporary.fileno())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _partition_count(image: MetadataImage) -> int:
    return sum(len(topic.partitions) for topic in image.topics.values())


# ---------------------------------------------------------------------------------------- restore


def restore_snapshot(file: Path, options: RestoreOptions) -> None:
    config = read_store_config(options.zookeeper, options.config)
    with _explained(_AGAIN):
        snapshot = decode_snapshot(file.read_bytes())
        restorer = _Restorer(options)
        try:
            asyncio.run(restorer.run(config, snapshot))
        except KeyboardInterrupt:
            output.note(f"Interrupted. {_AGAIN}")
            raise


class _Restorer:
    def __init__(self, options: RestoreOptions) -> None:
        self._options = options
        settings = _client_settings(options.command_config)
        self._protocol = settings.get("security.protocol", "plaintext").upper()
        self._connect = make_connect(ClusterClient("", settings))
        self._told = ""

    async def run(self, config: BrokerConfig, snapshot: Snapshot) -> None:
        async with _opened(config) as store:
            begun = await begin_restore(
                store, snapshot, checksum_of(snapshot), self._options.force, lambda: uuid.uuid4().hex
            )
            if begun.restoration.state is RestorationState.FINISHED:
                output.note(f"This is already done: the snapshot of {snapshot.taken_at} was restored here.")
                return
            image = snapshot.image
            what = "was written before" if begun.was_there else "is written"
            output.note(
                f"The snapshot of {snapshot.taken_at} {what}: cluster {image.cluster_id}, "
                f"{plural(len(image.topics), 'topic')}, {plural(_partition_count(image), 'partition')}."
            )
            output.note("Start all brokers now. Leaders are elected when they are here.")
            left = await self._wait(store)
        what = f"all is decided, but {self._told}" if left else "every partition has a leader"
        output.note(f"Restored: {what}. `penstock cluster status` shows how the cluster is.")

    async def _wait(self, store: Store) -> Waiting:
        """A broker that comes changes the image, so each look reads it anew. Returns the partitions that have no
        leader when the time is up, though nothing is left to decide: the only replica of each is not here.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_s
        while True:
            # A broker that comes a moment later may have more: loss is accepted when the time is up, and not before.
            is_over = loop.time() >= deadline
            elected = await self._look(store, accepts_loss=is_over and self._options.accept_loss)
            if elected is not None:
                left = elected.waiting or find_unled(elected.image)
                self._tell(left)
                if not left or (is_over and not elected.waiting):
                    return left
            if is_over:
                raise CliError(
                    f"not all brokers came within {self._options.timeout_s:g} s: {self._told or 'nobody is here'}",
                    f"Start them and run the command again. Where they are lost for good: --accept-loss.\n{_AGAIN}",
                )
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self, store: Store, *, accepts_loss: bool) -> Elected | None:
        """None while no broker is there to ask."""
        image = await load_image(store)
        brokers = {
            node_id: (endpoint.host, endpoint.port)
            for node_id, broker in image.brokers.items()
            for endpoint in broker.endpoints
            if endpoint.security_protocol.upper() == self._protocol
        }
        if not brokers:
            return None
        ends, minimums = await asyncio.to_thread(self._ask, image, brokers)
        if minimums is None:
            return None
        return await try_finish(store, ends, minimums, SystemClock().now_ms(), accepts_loss=accepts_loss)

    def _ask(
        self, image: MetadataImage, brokers: Mapping[int, Address]
    ) -> tuple[dict[ReplicaPlace, LogEnd], dict[str, int] | None]:
        """In a thread. A broker that is here and does not answer yet is asked again."""
        leaderless = find_leaderless(image)
        places = [(topic.name, state.partition, state.replicas) for topic, state in leaderless]
        ends = read_log_ends(self._connect, brokers, places)
        topics = sorted({topic.name for topic, _ in leaderless})
        for address in brokers.values():
            try:
                with self._connect(address, ANSWER_TIMEOUT_S) as client:
                    minimums = min_in_sync_of(read_minimums(client, topics))
                return {(key.topic, key.partition, key.node_id): end for key, end in ends.items()}, minimums
            except (OSError, ApiError):
                continue
        return {}, None

    def _tell(self, waiting: Waiting) -> None:
        if not waiting:
            return
        missing = ", ".join(map(str, sorted({node_id for nodes in waiting.values() for node_id in nodes})))
        text = f"{plural(len(waiting), 'partition')} wait for what brokers {missing} have"
        if text != self._told:
            self._told = text
            output.note(f"  {text}")


def _client_settings(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return translate_client_properties(read_properties(path))
    except ConfigError as error:
        raise UsageError(str(error), "Check the file given to --command-config.") from None


@contextlib.asynccontextmanager
async def _opened(config: BrokerConfig) -> AsyncIterator[Store]:
    store = await open_store(config)
    try:
        yield store
    finally:
        await store.close()


@contextlib.contextmanager
def _explained(hint: str) -> Iterator[None]:
    try:
        yield
    except SnapshotError as error:
        raise CliError(error.message, error.hint) from error
    except StoreError as error:
        raise CliError(str(error), hint, exit_code_of(error)) from error
    except FileNotFoundError as error:
        raise CliError(f"{error.filename}: there is no such file", exit_code=ExitCode.USAGE) from error
