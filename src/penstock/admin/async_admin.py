"""The administration of one cluster for asyncio."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

import penstock.admin.changes.configs as config_changes
import penstock.admin.changes.groups as group_changes
import penstock.admin.changes.records as record_changes
import penstock.admin.changes.replicas as replica_changes
import penstock.admin.changes.topics as topic_changes
from penstock.admin.async_commits import AsyncCommits
from penstock.admin.async_nodes import AsyncNodes
from penstock.admin.async_security import AsyncSecurity
from penstock.admin.async_transactions import AsyncTransactions
from penstock.admin.changes.topics import NewTopic
from penstock.admin.look import ANSWER_TIMEOUT_S, Look
from penstock.admin.names import list_names, list_names_if_any
from penstock.admin.picture import EVERYTHING, Wish, read_picture
from penstock.admin.queries.configs import Settings, read_configs
from penstock.admin.queries.groups import (
    Commits,
    Groups,
    describe_groups,
    explain_missing_group,
    join_groups,
    list_groups,
    read_commits,
)
from penstock.admin.queries.moves import list_moves
from penstock.admin.queries.offsets import LAST, list_log_ends, list_offsets
from penstock.admin.queries.refusals import PartitionRefusals, Refusals
from penstock.admin.queries.topics import explain_missing_leader, read_brokers, read_controller, read_topics
from penstock.admin.state.cluster import ClusterState, LogEnd
from penstock.admin.state.configs import ConfigPlace
from penstock.admin.state.partitions import ReplicaKey, TopicState
from penstock.admin.state.parts import Failure, Part, Partial
from penstock.client.addresses import Address, parse_servers
from penstock.client.brokers import Brokers
from penstock.client.move_requests import Moving, Partition
from penstock.client.security import PLAINTEXT, SecuritySource, client_security, kafka_properties
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.message import Message


class AsyncAdmin:
    """Asks and changes the cluster that `brokers` are of. Reading tells what could not be read, and why; a change tells
    what was refused. Every coroutine raises OSError where no broker answers at all, and ApiError where the answer as a
    whole says why not.
    """

    def __init__(self, brokers: Brokers, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """`brokers` becomes the admin's own, and is closed with it. No answer to a question is waited for longer than
        `timeout_s`; a change has the time of `brokers`.
        """
        self.brokers = brokers
        self.commits = AsyncCommits(brokers)
        self.nodes = AsyncNodes(brokers, timeout_s)
        self.security = AsyncSecurity(brokers, timeout_s)
        self.transactions = AsyncTransactions(brokers, timeout_s)
        self._timeout_s = timeout_s

    @classmethod
    def of(
        cls,
        servers: str | Sequence[Address],
        settings: Mapping[str, str] | None = None,
        *,
        security: SecuritySource = PLAINTEXT,
        client_id: str = "penstock-admin",
        timeout_s: float = ANSWER_TIMEOUT_S,
        patience_s: float = 0.0,
    ) -> Self:
        """`settings` are those of a Java client, or librdkafka's: `security.protocol`, `sasl.*`, `ssl.*`. `patience_s`
        is how long a cluster without any broker is waited for. Nothing is opened yet. Raises ConfigError,
        CredentialsError and ValueError.
        """
        addresses = parse_servers(servers) if isinstance(servers, str) else servers
        if settings:
            security = client_security(kafka_properties(settings))
        brokers = Brokers(addresses, security, client_id=client_id, patience_s=patience_s, connect_timeout_s=timeout_s)
        return cls(brokers, timeout_s)

    # ------------------------------------------------------------------------------------ reading

    async def read(
        self,
        parts: Collection[Part] = EVERYTHING,
        *,
        config_keys: Sequence[str] = (),
        before: ClusterState | None = None,
    ) -> ClusterState:
        """The picture of the cluster. Of settings, `config_keys` of every topic. Parts that are not asked for, or that
        no broker tells now, are those of `before`, with their age.
        """
        return await self.read_wish(Wish(parts, list_names(config_keys)), before)

    async def read_wish(self, wish: Wish, before: ClusterState | None = None) -> ClusterState:
        return await read_picture(self._look(), wish, before)

    async def topics(self, names: Sequence[str] | None = None) -> dict[str, TopicState]:
        """These topics, or all that the caller may describe. ApiError for one that is not there."""
        wanted = list_names_if_any(names)
        metadata = await self._look().metadata(wanted)
        for row in metadata.topics:
            if wanted is not None and row.error_code != ErrorCode.NONE:
                error = error_of(row.error_code)
                raise ApiError(error.code, f"topic {row.name}: {error.message}")
        return read_topics(metadata)

    async def moves(self) -> dict[Partition, Moving]:
        """Replicas on their way to other brokers, as the controller tells."""
        look = self._look()
        controller = read_controller(await look.metadata([]))
        if controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no broker is the controller")
        return await list_moves(look, controller)

    async def groups(
        self, group_ids: Collection[str] | None = None, *, with_members: bool = True, with_commits: bool = True
    ) -> Partial[Groups]:
        """These groups, or all that the caller may describe. One that is not there is among the failures."""
        wanted = list_names_if_any(group_ids)
        look = self._look()
        metadata = await look.metadata([])
        listed, failures = await list_groups(look, read_brokers(metadata))
        if wanted is not None:
            missing = [each for each in wanted if each not in listed]
            absent = explain_missing_group(failures)
            failures = (*failures, *(Failure.of(f"group {each}", absent) for each in missing))
            listed = {group_id: group for group_id, group in listed.items() if group_id in set(wanted)}
        described: Groups = {}
        commits: dict[str, Commits] = {}
        if with_members:
            described, silent = await describe_groups(look, listed.values())
            failures = (*failures, *silent)
        if with_commits:
            commits, silent = await read_commits(look, listed.values())
            failures = (*failures, *silent)
        return Partial(join_groups(listed, described, commits), failures)

    async def offsets(
        self,
        places: Iterable[TopicPartition] | Mapping[TopicPartition, int],
        at: int = LAST,
        *,
        is_committed: bool = False,
    ) -> Partial[dict[TopicPartition, int]]:
        """`at` is FIRST, LAST, or a time in milliseconds for the first offset that is not older; a mapping has one for
        each partition. `is_committed` ends at the last stable offset.
        """
        wanted = dict(places) if isinstance(places, Mapping) else dict.fromkeys(places, at)
        look = self._look()
        metadata = await look.metadata(sorted({place.topic for place in wanted}))
        partitions = [
            each for topic in read_topics(metadata).values() for each in topic.partitions if each.key in wanted
        ]
        present = read_brokers(metadata)
        found, failures = await list_offsets(look, partitions, present, at=wanted, is_committed=is_committed)
        led = {each.key for each in partitions if not each.is_offline(present)}
        lost = [Failure.of(str(place), explain_missing_leader(place, metadata)) for place in wanted if place not in led]
        return Partial(found, (*failures, *lost))

    async def log_ends(self, replicas: Mapping[TopicPartition, Collection[int]]) -> Partial[dict[ReplicaKey, LogEnd]]:
        """Where the log of each of these replicas ends, whether it leads or not."""
        look = self._look()
        present = read_brokers(await look.metadata([]))
        return await list_log_ends(look, replicas.items(), present)

    async def configs(self, places: Iterable[ConfigPlace], keys: Sequence[str] | None = None) -> Partial[Settings]:
        """All settings, or these."""
        wanted = list_names_if_any(keys)
        look = self._look()
        return await read_configs(look, places, wanted, read_brokers(await look.metadata([])))

    # ------------------------------------------------------------------------------------ changing

    async def create_topics(self, topics: Iterable[NewTopic], *, only_check: bool = False) -> Refusals:
        return await topic_changes.create_topics(self.brokers, topics, only_check=only_check)

    async def delete_topics(self, names: Iterable[str]) -> Refusals:
        return await topic_changes.delete_topics(self.brokers, list_names(names))

    async def add_partitions(self, counts: Mapping[str, int]) -> Refusals:
        """How many partitions each topic is to have."""
        return await topic_changes.add_partitions(self.brokers, counts)

    async def alter_configs(
        self, values: Mapping[ConfigPlace, Mapping[str, str | None]], *, only_check: bool = False
    ) -> dict[ConfigPlace, ApiError]:
        """The new values; None takes a setting back to its default. What is not named stays."""
        return await config_changes.alter_configs(self.brokers, values, only_check=only_check)

    async def elect_leaders(self, places: Iterable[TopicPartition], *, unclean: bool = False) -> PartitionRefusals:
        """The preferred leaders; with `unclean` a replica that lacks records, where no other is there."""
        return await replica_changes.elect_leaders(self.brokers, places, unclean=unclean)

    async def move_replicas(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> PartitionRefusals:
        """The replicas to be of each partition, the preferred leader first; None cancels what is under way."""
        return await replica_changes.move_replicas(self.brokers, targets)

    async def move_directories(self, targets: Mapping[ReplicaKey, str]) -> dict[ReplicaKey, ApiError]:
        """The directory to be of each replica. The moves go on when this returns."""
        return await replica_changes.move_directories(self.brokers, targets)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> PartitionRefusals:
        """The offset that each partition is to begin with; LAST is where its replicated records end."""
        return await record_changes.delete_records(self.brokers, before)

    async def unregister_broker(self, node_id: int) -> None:
        """Takes a broker that is gone off the list of the cluster. Raises ApiError."""
        await replica_changes.unregister_broker(self.brokers, node_id)

    async def delete_groups(self, group_ids: Iterable[str]) -> Refusals:
        """A group with members is refused."""
        wanted = list_names(group_ids)
        listed = await self.groups(wanted, with_members=False, with_commits=False)
        coordinators: dict[int, list[str]] = {}
        for group in listed.found.values():
            if group.coordinator is not None:
                coordinators.setdefault(group.coordinator, []).append(group.group_id)
        absent = explain_missing_group(listed.failures)
        missing = {each: absent for each in wanted if each not in listed.found}
        return missing | await group_changes.delete_groups(self.brokers, coordinators)

    # ------------------------------------------------------------------------------------ the rest

    async def ask_controller(self, message: Message) -> Message:
        """A request that has no operation here. It is sent again where the controller moves, not where an answer is
        lost.
        """
        answer: Message = await self.brokers.ask_controller(message)
        return answer

    async def close(self) -> None:
        await self.brokers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _look(self) -> Look:
        return Look(self.brokers, self._timeout_s)
