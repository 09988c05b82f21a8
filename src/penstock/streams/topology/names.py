"""Names of applications, nodes and stores, and the topics that are named after them.

Names are identity: a query's checkpoint, a table's changelog and a store are found by them. They have only characters
that Kafka allows in a topic's name, since they become parts of one.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.streams.topology.errors import StreamsError

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST_TOPIC = 249  # Kafka's limit
CHANGELOG, REPARTITION = "-changelog", "-repartition"
# The length of a topic's name that is left to an application and a node, with the hyphen between them.
_LONGEST_TOGETHER = _LONGEST_TOPIC - len(REPARTITION) - 1
_LONGEST_APPLICATION = 100  # leaves more than that to the names of nodes
# Names of queries that are not a node's.
RESERVED = frozenset({"dead-letters"})


def check_name(name: Any, what: str) -> str:
    """Returns the name. `what` is for the message: "the name of an application"."""
    if not isinstance(name, str) or not _ALLOWED.fullmatch(name) or name in (".", ".."):
        raise StreamsError(f"{name!r} cannot be {what}", "Letters, digits, '.', '_' and '-' are allowed.")
    return str(name)


def check_application(name: str) -> str:
    check_name(name, "the name of an application")
    if len(name) > _LONGEST_APPLICATION:
        raise StreamsError(
            f"the name of the application is {len(name)} characters long; {_LONGEST_APPLICATION} are allowed",
            "Internal topics are named after the application and the node; Kafka allows 249 characters in all.",
        )
    return name


def check_node_name(application: str, name: str, what: str) -> str:
    check_name(name, what)
    if name in RESERVED:
        raise StreamsError(f"{name!r} cannot be {what}: a query of the application has this name", "Choose another.")
    if len(application) + len(name) > _LONGEST_TOGETHER:
        raise StreamsError(
            f"{name!r} is too long to be {what}: with the application's {_LONGEST_TOGETHER} characters are allowed",
            "Give it a shorter one with name=.",
        )
    return name


def check_topic(topic: Any) -> str:
    if (
        not isinstance(topic, str)
        or not _ALLOWED.fullmatch(topic)
        or topic in (".", "..")
        or len(topic) > _LONGEST_TOPIC
    ):
        raise StreamsError(
            f"{topic!r} cannot be the name of a topic",
            f"Letters, digits, '.', '_' and '-' are allowed, at most {_LONGEST_TOPIC} of them.",
        )
    return str(topic)


def several_topics(topics: Any) -> tuple[str, ...]:
    """Of one stream. Returns them."""
    if not isinstance(topics, list | tuple) or len(topics) < 2:
        raise StreamsError(
            f"{topics!r} are not several topics", 'One topic is a text, "orders"; several are a list of texts.'
        )
    for number, topic in enumerate(topics):
        if check_topic(topic) in topics[:number]:
            raise StreamsError(f"the topic {topic} is named twice", "Each of its records counts once.")
    return tuple(topics)


def changelog_topic(application: str, name: str) -> str:
    return f"{application}-{name}{CHANGELOG}"


def repartition_topic(application: str, name: str) -> str:
    return f"{application}-{name}{REPARTITION}"


def is_internal(application: str, topic: str) -> bool:
    """Whether the topic is, or could become, the application's own."""
    return topic.startswith(f"{application}-") and topic.endswith((CHANGELOG, REPARTITION))
