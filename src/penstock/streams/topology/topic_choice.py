"""The topics that a source reads: one, by its name, or those whose whole names match a pattern.

A pattern is a regular expression of Python's. It identifies the source, not the topics that existed one day.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, FormatKind, check_readable

TopicChoice: TypeAlias = "str | re.Pattern[str]"


def refuse_pattern(topic: Any, what: str) -> None:
    """Of tables, which are one topic each, as in Kafka Streams."""
    if isinstance(topic, re.Pattern):
        raise StreamsError(
            f"{what} is one topic, and {topic.pattern} may be many: which record of a key is the last cannot be told",
            "Read them with app.stream(), which takes patterns; to_table() then goes by the times of the records.",
        )


def check_format(given: Format, of: str, choice: TopicChoice) -> Format:
    """Returns the format. A registry's subject is named after one topic, unless the author names it."""
    found = check_readable(given, f"the {of} of {topics_text(choice)}")
    if isinstance(choice, re.Pattern) and found.kind is FormatKind.REGISTRY and found.subject is None:
        raise StreamsError(
            f"the {of} of {topics_text(choice)} is of a registry, and each topic has a subject of its own",
            f'Name one that reads all of them: {of}=registry("SUBJECT").',
        )
    return found


def reads(choice: TopicChoice, topic: str) -> bool:
    return choice == topic if isinstance(choice, str) else choice.fullmatch(topic) is not None


def topics_text(choice: TopicChoice) -> str:
    """For people, and for checkpoints. No topic has a name with a space."""
    # Checkpoints hold this text, to be compared: other words would refuse every application that reads a pattern.
    return choice if isinstance(choice, str) else f"topics like {choice.pattern}"
