"""The picture of a cluster in one look: what is asked side by side, and what has to wait for an answer.

First the topics, from any broker. Then all that depends on them alone: moves from the controller, directories from each
broker, offsets from leaders, settings, the lists of groups. Last what depends on those: members and commits from
coordinators, log ends of replicas that lag. A cluster of 1,000 topics, 10,000 partitions and 500 groups costs one
broker at most 40 requests for all of that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.admin.look import Look
from penstock.admin.queries.configs import read_configs
from penstock.admin.queries.groups import Commits, Groups, describe_groups, join_groups, list_groups, read_commits
from penstock.admin.queries.moves import list_moves
from penstock.admin.queries.nodes import read_node
from penstock.admin.queries.offsets import FIRST, LAST, list_log_ends, list_offsets
from penstock.admin.queries.topics import read_brokers, read_controller, read_topics
from penstock.admin.state.brokers import BrokerState
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.configs import ConfigPlace
from penstock.admin.state.groups import GroupState
from penstock.admin.state.parts import Failure, Part, PartRead
from penstock.client.move_requests import Moving, Partition
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.metadata import MetadataResponse

EVERYTHING: Final = frozenset(Part)
# Partitions whose replicas are asked how far they are: enough for a screen, and one request of 50 KB to each broker.
_LAGS_ASKED = 1_000


@dataclass(frozen=True)
class Wish:
    """Which parts of the picture to read. `config_keys` are the settings of topics that are read with Part.CONFIGS, and
    `config_topics` the topics: all of them for None, and none but those with a lagging replica for `of_lagging`.
    """

    parts: Collection[Part] = EVERYTHING
    config_keys: Sequence[str] = ()
    of_lagging: bool = False


async def read_picture(look: Look, wish: Wish, before: ClusterState | None = None) -> ClusterState:
    """Parts that are not wanted, or that nobody could tell, are those of `before`, with their age. Raises OSError where
    no broker answers at all.
    """
    at_s = time.monotonic()
    metadata = await look.metadata()
    drawing = _Drawing(look, wish, metadata, at_s)
    await drawing.draw()
    return drawing.finish(before)


@dataclass
class _Drawing:
    """A picture that is not finished."""

    look: Look
    wish: Wish
    metadata: MetadataResponse
    at_s: float
    state: ClusterState = field(init=False)
    moves: Mapping[Partition, Moving] = field(default_factory=dict)
    parts: dict[Part, PartRead] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = ClusterState(
            self.at_s,
            self.metadata.cluster_id or "",
            read_controller(self.metadata),
            read_brokers(self.metadata),
            read_topics(self.metadata),
        )
        self._note(Part.TOPICS)

    async def draw(self) -> None:
        steps: tuple[tuple[Part, Callable[[], Awaitable[None]]], ...] = (
            (Part.DIRECTORIES, self._directories),
            (Part.MOVES, self._moves),
            (Part.GROUPS, self._groups),
            (Part.FIRST_OFFSETS, lambda: self._offsets(Part.FIRST_OFFSETS, FIRST)),
            (Part.LAST_OFFSETS, lambda: self._offsets(Part.LAST_OFFSETS, LAST)),
        )
        wanted = [step() for part, step in steps if self._wants(part)]
        if self._wants(Part.CONFIGS) and not self.wish.of_lagging:
            wanted.append(self._configs(self.state.topics))
        await asyncio.gather(*wanted)
        if self.moves:
            self.state = replace(self.state, topics=read_topics(self.metadata, self.moves))
        late: list[Awaitable[None]] = []
        if self._wants(Part.LOG_ENDS):
            late.append(self._log_ends())
        if self._wants(Part.CONFIGS) and self.wish.of_lagging:
            late.append(self._configs({each.topic: None for each in self.state.under_replicated}))
        await asyncio.gather(*late)

    def finish(self, before: ClusterState | None) -> ClusterState:
        state = replace(self.state, parts=self.parts)
        return state if before is None else keep_earlier(state, before)

    # ------------------------------------------------------------------------------------ parts

    async def _directories(self) -> None:
        answers = await asyncio.gather(*(read_node(self.look, broker) for broker in self.state.brokers.values()))
        failures = [
            Failure("directories", answer.broker.silence, answer.broker.node_id)
            for answer in answers
            if answer.broker.silence
        ]
        brokers: dict[int, BrokerState] = {answer.broker.node_id: answer.broker for answer in answers}
        files = {key: value for answer in answers for key, value in answer.files.items()}
        self.state = replace(self.state, brokers=brokers, files=files)
        self._note(Part.DIRECTORIES, failures)

    async def _moves(self) -> None:
        controller = self.state.controller_id
        if controller is None:
            return
        try:
            self.moves = await list_moves(self.look, controller)
        except (OSError, ApiError) as error:
            self._note(Part.MOVES, [Failure.of("moves", error, controller)])
        else:
            self._note(Part.MOVES)

    async def _offsets(self, part: Part, at: int) -> None:
        found, failures = await list_offsets(self.look, self.state.partitions, self.state.brokers, at=at)
        if part is Part.FIRST_OFFSETS:
            self.state = replace(self.state, first_offsets=found)
        else:
            self.state = replace(self.state, last_offsets=found)
        self._note(part, failures)

    async def _configs(self, topics: Iterable[str]) -> None:
        places = [ConfigPlace.topic(name) for name in topics]
        if places and self.wish.config_keys:
            found, failures = await read_configs(self.look, places, self.wish.config_keys, self.state.brokers)
            self.state = replace(self.state, configs=found)
            self._note(Part.CONFIGS, failures)
        else:
            self._note(Part.CONFIGS)

    async def _groups(self) -> None:
        listed, failures = await list_groups(self.look, self.state.brokers)
        self._note(Part.GROUPS, failures)
        described: Groups = {}
        commits: dict[str, Commits] = {}
        if self._wants(Part.MEMBERS):
            described, failures = await describe_groups(self.look, listed.values())
            self._note(Part.MEMBERS, failures)
        if self._wants(Part.COMMITS):
            commits, failures = await read_commits(self.look, listed.values())
            self._note(Part.COMMITS, failures)
        self.state = replace(self.state, groups=join_groups(listed, described, commits))

    async def _log_ends(self) -> None:
        lagging = [(each.key, each.replicas) for each in self.state.under_replicated[:_LAGS_ASKED]]
        present = [broker.node_id for broker in self.state.brokers.values() if broker.is_alive]
        found, failures = await list_log_ends(self.look, lagging, present)
        self.state = replace(self.state, log_ends=found)
        self._note(Part.LOG_ENDS, failures)

    # ------------------------------------------------------------------------------------ the rest

    def _wants(self, part: Part) -> bool:
        """Members and commits are of groups, which have to be known."""
        if part is Part.GROUPS:
            return not {Part.GROUPS, Part.MEMBERS, Part.COMMITS}.isdisjoint(self.wish.parts)
        return part in self.wish.parts

    def _note(self, part: Part, failures: Iterable[Failure] = ()) -> None:
        self.parts[part] = PartRead(time.monotonic(), tuple(failures))


# Which field of the picture a part fills by itself.
_FIELDS: Final = {
    Part.FIRST_OFFSETS: "first_offsets",
    Part.LAST_OFFSETS: "last_offsets",
    Part.LOG_ENDS: "log_ends",
    Part.CONFIGS: "configs",
    Part.GROUPS: "groups",
    Part.DIRECTORIES: "files",
}


def keep_earlier(state: ClusterState, before: ClusterState) -> ClusterState:
    """`state` with the parts of `before` that were not read now, or that no broker told. They keep their time, and have
    the failures of now.
    """
    fields: dict[str, Any] = {}
    parts = dict(state.parts)
    for part, earlier in before.parts.items():
        name = _FIELDS.get(part)
        read = parts.get(part)
        is_lost = read is not None and bool(read.failures) and name is not None and not getattr(state, name)
        if read is None or is_lost:
            parts[part] = PartRead(earlier.at_s, () if read is None else read.failures)
            if name is not None:
                fields[name] = getattr(before, name)
            if part is Part.DIRECTORIES:
                fields["brokers"] = _with_directories(state.brokers, before.brokers)
    if Part.GROUPS in state.parts and "groups" not in fields:
        fields["groups"] = {
            group_id: _with_details(group, before.groups.get(group_id), state.parts)
            for group_id, group in state.groups.items()
        }
    return replace(state, parts=parts, **fields)


def _with_directories(brokers: Mapping[int, BrokerState], before: Mapping[int, BrokerState]) -> dict[int, BrokerState]:
    kept = {}
    for node_id, broker in brokers.items():
        known = before.get(node_id, broker)
        kept[node_id] = broker._replace(
            silence=broker.silence or known.silence,
            directories=known.directories,
            stored_bytes=known.stored_bytes,
            features=known.features,
            certificate_left_s=known.certificate_left_s,
        )
    return kept


def _with_details(group: GroupState, known: GroupState | None, read: Collection[Part]) -> GroupState:
    """Members and commits are read less often than the list of groups."""
    if known is None:
        return group
    if Part.MEMBERS not in read:
        group = group._replace(members=known.members, assignor=known.assignor)
    return group._replace(committed=known.committed) if Part.COMMITS not in read else group
