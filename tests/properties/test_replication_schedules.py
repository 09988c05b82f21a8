"""Any order of appends, fetches, elections, in-sync changes and restarts: what was committed once is never lost.

The brokers are driven step by step. Each learns of images when the schedule says so, so that several may believe to
lead. Elections are clean: the new leader is a member of the in-sync set.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.broker.replicas.followed_partition import Followed, FollowerFetchOutcome
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.core.log_settings import LogSettings
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from tests.unit.broker.replication_rig import TOPIC, TOPIC_ID, Node, ReplicaCluster
from tests.unit.log.support import NOW, batch, read_all

NODES = (1, 2, 3)
# By how often they should come. Elections and changes of the set matter only with records and fetches between them.
NAMES = ("append",) * 4 + ("fetch",) * 8 + ("learn",) * 3 + ("elect",) * 3 + ("grow", "shrink", "restart")
STEPS = st.tuples(st.sampled_from(NAMES), st.sampled_from(NODES), st.integers(0, 15))


class Schedule:
    def __init__(self, path: Path) -> None:
        self.cluster = ReplicaCluster(path, settings=LogSettings(segment_bytes=400), is_driven=True)
        self.number = 0
        self.committed: dict[int, str] = {}
        self.state = PartitionState(0, NODES, NODES, 1)

    @property
    def image(self) -> MetadataImage:
        return replace(self.cluster.image, topics={TOPIC: TopicImage(TOPIC, TOPIC_ID, (self.state,))})

    def start(self) -> None:
        for node in self.cluster.nodes.values():
            node.open()
            node.apply(self.image)

    async def run(self, steps: list[tuple[str, int, int]]) -> None:
        self.start()
        for name, node_id, detail in steps:
            await getattr(self, name)(self.cluster.nodes[node_id], detail)
            self.check()
        await self.converge()
        for node in self.cluster.nodes.values():
            await node.close()

    # ------------------------------------------------------------------------------------------ steps

    async def append(self, _: Node, detail: int) -> None:
        """Everywhere where a broker believes to lead."""
        for node in self.cluster.nodes.values():
            self.number += 1
            if node.partition().is_leader:
                values = [f"{self.number}.{each}" for each in range(1 + detail % 3)]
                node.partition().append(batch(*values), 1, NOW)

    async def fetch(self, node: Node, detail: int) -> None:
        """Several times, because it takes three to cut, to copy and to hear of the high watermark."""
        for _ in range(1 + detail % 4):
            await self._fetch_once(node)
            self.check()

    async def _fetch_once(self, node: Node) -> None:
        state = node.partition().state
        if state.leader == node.node_id:
            return
        followed = Followed(node.partition(), state.leader_epoch)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=node.node_id, replica_epoch=node.node_id),
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[followed.ask(150)])],
        )
        response = await self.cluster.nodes[state.leader].ask(request, 18)
        answer = followed.take(response.responses[0].partitions[0], NOW)
        assert answer in (FollowerFetchOutcome.TAKEN, FollowerFetchOutcome.CUT, FollowerFetchOutcome.LATER)
        if answer is FollowerFetchOutcome.CUT:
            # As in the fetcher: something is gone, the next fetch asks from the new end, and the files that are out of
            # use are removed while it is under way.
            assert followed.sent != followed.position
            node.directories.delayed_deletes.remove_due(NOW)
            assert not list(node.path.glob(f"{TOPIC}-0/*.deleted"))

    async def learn(self, node: Node, _: int) -> None:
        node.apply(self.image)

    async def elect(self, node: Node, keep: int) -> None:
        """Some other members leave the set with the old leader. Mostly the new leader hears of it at once."""
        if node.node_id in self.state.isr:
            isr = tuple(each for each in self.state.isr if each == node.node_id or keep & 1 << (each - 1))
            self._write(leader=node.node_id, isr=isr, leader_epoch=self.state.leader_epoch + 1)
            self.check_complete(node)
            if keep < 12:
                node.apply(self.image)

    async def grow(self, node: Node, _: int) -> None:
        leading = node.partition().leading
        if leading is not None and leading.pending_isr is None and leading.candidates():
            self._ask(node, (*leading.state.isr, *leading.candidates()))

    async def shrink(self, node: Node, detail: int) -> None:
        leading, other = node.partition().leading, 1 + detail % 3
        if leading is not None and leading.pending_isr is None and other != node.node_id and other in leading.state.isr:
            self._ask(node, tuple(each for each in leading.state.isr if each != other))

    def _ask(self, node: Node, isr: tuple[int, ...]) -> None:
        """The controller decides at once, and the leader hears of it by the next image."""
        leading = node.partition().leading
        assert leading is not None
        leading.propose(isr)
        known = leading.state
        if (known.leader_epoch, known.partition_epoch) == (self.state.leader_epoch, self.state.partition_epoch):
            self._write(isr=isr)

    def _write(self, **fields: object) -> None:
        changed = self.state._replace(**fields)  # type: ignore[arg-type]
        self.state = changed._replace(partition_epoch=self.state.partition_epoch + 1)

    async def restart(self, node: Node, clean: int) -> None:
        await node.close(clean=clean % 2 == 0)
        node.open()
        node.apply(self.image)

    # ------------------------------------------------------------------------------------------ invariants

    def check(self) -> None:
        for node in self.cluster.nodes.values():
            log = node.partition().log
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
            for offset, value in read_all(log):
                if offset < log.high_watermark:
                    assert self.committed.setdefault(offset, value) == value

    def check_complete(self, node: Node) -> None:
        held = dict(read_all(node.partition().log))
        assert {offset: held.get(offset) for offset in self.committed} == self.committed

    async def converge(self) -> None:
        """In the end all know the same image and fetch: all logs become equal."""
        self._write(leader_epoch=self.state.leader_epoch + 1)
        for node in self.cluster.nodes.values():
            node.apply(self.image)
        for _ in range(200):
            for node in self.cluster.nodes.values():
                await self._fetch_once(node)
            self.check()
            logs = [node.partition().log for node in self.cluster.nodes.values()]
            if (
                len({(log.log_end_offset, log.high_watermark) for log in logs})
                == 1
                == len({log.log_end_offset - log.high_watermark for log in logs} | {0})
            ):
                break
        assert len({self.cluster.log_bytes(node_id) for node_id in NODES}) == 1
        self.check_complete(self.cluster.nodes[1])


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=20, max_size=60))
def test_nothing_committed_is_lost_and_logs_become_equal(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(Schedule(Path(directory)).run(steps))


def test_an_append_is_refused_when_another_leads(tmp_path: Path) -> None:
    async def scenario() -> None:
        schedule = Schedule(tmp_path)
        schedule.start()
        try:
            schedule.cluster.nodes[2].partition().append(batch("a"), 1, NOW)
        except ApiError:
            return
        raise AssertionError("a follower took a record")

    asyncio.run(scenario())
