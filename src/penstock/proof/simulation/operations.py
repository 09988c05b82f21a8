"""A client that moves replicas and leaders about, as operators do: reassignments, cancelled ones, preferred leaders."""

from __future__ import annotations

from penstock.proof.simulation.client import TRANSIENT, Asking, Call, Client, Script, ask
from penstock.proof.simulation.topics import KEYED, RECORDS, RECORDS_PARTITIONS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

_PREFERRED = 0
# Never fewer: what one replica alone has acknowledged is lost with it.
_FEWEST_REPLICAS = 2
# Nothing is to be cancelled or to be elected; a replica was asked for whose broker is away.
_EXPECTED = TRANSIENT | {
    ErrorCode.NONE,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
}


class Operator(Client):
    def run(self) -> Script:
        partitions = [*((RECORDS, index) for index in range(RECORDS_PARTITIONS)), (KEYED, 0)]
        while self.goes_on:
            topic, index = self.chance.choice(partitions)
            choice = self.chance.random()
            if choice < 0.5:
                yield from self._reassign(topic, index, self._some_replicas())
            elif choice < 0.6:
                yield from self._reassign(topic, index, None)
            else:
                yield from self._elect(topic, index)
            yield self.pause() * 3

    def _some_replicas(self) -> list[int]:
        count = len(self.setting.machines)
        return self.chance.sample(range(count), self.chance.randint(_FEWEST_REPLICAS, count))

    def _reassign(self, topic: str, index: int, replicas: list[int] | None) -> Asking:
        wanted = ReassignableTopic(
            name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        request = AlterPartitionReassignmentsRequest(topics=[wanted])
        response = yield from ask(Call(request, 0), AlterPartitionReassignmentsResponse)
        self._judge(f"{topic}-{index} to {replicas}", response, _code(response))

    def _elect(self, topic: str, index: int) -> Asking:
        request = ElectLeadersRequest(
            election_type=_PREFERRED, topic_partitions=[TopicPartitions(topic=topic, partitions=[index])]
        )
        response = yield from ask(Call(request, 2), ElectLeadersResponse)
        code = None
        if response is not None:
            rows = [row for each in response.replica_election_results for row in each.partition_result]
            code = response.error_code or (rows[0].error_code if rows else 0)
        self._judge(f"{topic}-{index} to its preferred leader", response, code)

    def _judge(self, what: str, response: Message | None, code: int | None) -> None:
        self.note(f"moves {what}: {None if code is None else ErrorCode(code).name}")
        if response is not None and code not in _EXPECTED:
            self.notebook.fail(f"{self.name} moves {what}: {code}")


def _code(response: AlterPartitionReassignmentsResponse | None) -> int | None:
    if response is None:
        return None
    rows = [row for each in response.responses for row in each.partitions]
    return response.error_code or (rows[0].error_code if rows else 0)
