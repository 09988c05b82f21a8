"""Sends a command to a run, and waits for its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.runs.overview import Overview, SeenRun
from penstock.runs.records import Acknowledgement, Command, CommandOutcome, encode_command, key_of

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from penstock.runs.reader import RunsReader

# Longer than a run takes to come back from a short outage, shorter than a user waits before doing something else.
VALID_FOR_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The state of a command. Without an acknowledgement the run may not have got it."""

    run: SeenRun
    acknowledgement: Acknowledgement | None

    @property
    def is_final(self) -> bool:
        answer = self.acknowledgement
        return self.run.is_ended or (answer is not None and answer.outcome is not CommandOutcome.ACCEPTED)


def answer_to(overview: Overview, run: SeenRun, command: str) -> CommandAnswer:
    """`run` is its earlier record, for the case that the run is forgotten meanwhile."""
    seen = overview.runs.get(run.record.run, run)
    found = [each for each in seen.record.acknowledgements if each.command == command]
    return CommandAnswer(seen, found[-1] if found else None)


def send_command(producer: Producer, topic: str, command: Command, timeout_s: float) -> None:
    """Returns when the broker has the command. Raises KafkaException."""
    from confluent_kafka import KafkaError, KafkaException

    failures: list[Any] = []
    producer.produce(
        topic,
        encode_command(command),
        key_of(command),
        on_delivery=lambda error, _: failures.append(error) if error is not None else None,
    )
    if producer.flush(timeout_s):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    if failures:
        raise KafkaException(failures[0])


def await_answer(reader: RunsReader, run: SeenRun, command: Command, timeout_s: float) -> CommandAnswer:
    """The last known state when the answer is final or the time is up."""
    reader.listen(timeout_s, lambda overview: answer_to(overview, run, command.id).is_final)
    return answer_to(reader.overview, run, command.id)
