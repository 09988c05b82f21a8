"""Scripts at both ends of a schedule: one makes the topics, one sees that every partition takes writes."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.testing.history import Outcome
from proof.simulation.client import Call, Client, Script, ask
from proof.simulation.producers import Producer
from proof.simulation.topics import KEYED, RECORDS, RECORDS_PARTITIONS, TOPICS

_RETRY_MS = 50.0
_MADE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class Founder(Client):
    """Makes the topics with the brokers' default replication."""

    def run(self) -> Script:
        for name, partitions, configs in TOPICS:
            topic = CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=-1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            code: int | None = None
            while code not in _MADE:
                response = yield from ask(Call(CreateTopicsRequest(topics=[topic]), 5), CreateTopicsResponse)
                code = None if response is None else response.topics[0].error_code
                self.note(f"creates {name}: {None if code is None else ErrorCode(code).name}")
                yield _RETRY_MS


class Prober(Producer):
    """Writes to every partition until it succeeds."""

    def run(self) -> Script:
        for partition in [*((RECORDS, index) for index in range(RECORDS_PARTITIONS)), (KEYED, 0)]:
            outcome = Outcome.FAILED
            while outcome is not Outcome.OK:
                attempt = self.notebook.begin(self.number)
                outcome = yield from self.write(partition, attempt)
                self.notebook.end(attempt, outcome)
                yield _RETRY_MS
