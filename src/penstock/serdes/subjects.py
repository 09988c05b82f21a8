"""The subject under which a topic's schemas are registered."""

from __future__ import annotations

from enum import StrEnum

from penstock.serdes.errors import ChoiceError


class Strategy(StrEnum):
    """By Confluent's names. ASSOCIATED is the registry's answer, or TOPIC_NAME where the registry has none."""

    TOPIC_NAME = "TOPIC_NAME"
    RECORD_NAME = "RECORD_NAME"
    TOPIC_RECORD_NAME = "TOPIC_RECORD_NAME"
    ASSOCIATED = "ASSOCIATED"

    @property
    def needs_record(self) -> bool:
        return self in (Strategy.RECORD_NAME, Strategy.TOPIC_RECORD_NAME)


# The classes that Java's settings name, without their packages.
_CLASSES = {
    "TopicNameStrategy": Strategy.TOPIC_NAME,
    "RecordNameStrategy": Strategy.RECORD_NAME,
    "TopicRecordNameStrategy": Strategy.TOPIC_RECORD_NAME,
    "AssociatedNameStrategy": Strategy.ASSOCIATED,
}


def strategy_named(text: str) -> Strategy:
    """By name, or by the name of Java's class. Raises ChoiceError."""
    found = _CLASSES.get(text.rpartition(".")[2])
    if found is not None:
        return found
    try:
        return Strategy(text.upper())
    except ValueError:
        raise ChoiceError(f"{text[:100]!r} is no strategy; there are {', '.join(Strategy)}") from None


def subject_for(strategy: Strategy, topic: str, record_name: str | None, *, is_key: bool) -> str:
    """Not for ASSOCIATED: only the registry knows that subject."""
    if not strategy.needs_record:
        return f"{topic}-{'key' if is_key else 'value'}"
    if record_name is None:
        raise ChoiceError(f"{strategy} needs a schema that has a name: a record, a message, or a title in JSON")
    return record_name if strategy is Strategy.RECORD_NAME else f"{topic}-{record_name}"
