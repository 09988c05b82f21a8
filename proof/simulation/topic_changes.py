"""A client that makes topics, writes to them and deletes them again."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.records import Record
from proof.simulation.client import TRANSIENT, Call, Script, ask
from proof.simulation.producers import Producer

# The outcome of an earlier try of the same request, or of another client's; and fewer registered brokers than replicas.
_EXPECTED = TRANSIENT | {
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.NONE,
}


class TopicChanger(Producer):
    def run(self) -> Script:
        while self.goes_on:
            name = f"passing-{self.chance.randrange(2)}"
            # With two replicas a topic can be made while a broker is away that still has one of the same name.
            replicas = 1 if self.is_alone else self.chance.choice((-1, 2))
            topic = CreatableTopic(name=name, num_partitions=self.chance.randint(1, 2), replication_factor=replicas)
            made = yield from ask(Call(CreateTopicsRequest(topics=[topic]), 5), CreateTopicsResponse)
            self._judge("creates", None if made is None else made.topics[0].error_code)
            yield self.pause()
            yield from self.produce((name, 0), [Record(None, self.unique().encode(), timestamp=self.now_ms())])
            yield self.pause()
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
            gone = yield from ask(Call(request, 6), DeleteTopicsResponse)
            self._judge("deletes", None if gone is None else gone.responses[0].error_code)
            yield self.pause()

    def _judge(self, what: str, code: int | None) -> None:
        self.note(f"{what} a topic: {None if code is None else ErrorCode(code).name}")
        if code is not None and code not in _EXPECTED:
            self.notebook.fail(f"{self.name} {what} a topic: {ErrorCode(code).name}")
