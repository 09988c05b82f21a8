"""Which cases need steps, and which answers have times that depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Cases in which rows are late, or in which what is between the first and the last state of a table counts.
IN_STEPS = frozenset(
    {
        "chained",
        "hopping-grace",
        "idle-partition",
        "session-grace",
        "session-grace-exact",
        "session-late-inside",
        "sliding-grace",
        "stream-stream-join-late",
        "stream-stream-join-too-late",
        "stream-table-join-order",
        "table-group-by",
        "tumbling-grace",
    }
)
# All at once, a right row that came and went was never there, so that its time does not count. Kafka Streams on a
# broker may answer so, too: its two sides are tasks that do not wait for each other.
WITHOUT_TIMES = frozenset({"foreign-key-join", "foreign-key-join-many"})


def timeless(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {topic: {key: value for key, (value, _) in rows.items()} for topic, rows in answers.items()}
