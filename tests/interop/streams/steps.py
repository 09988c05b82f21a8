"""Which cases need steps, and which answers have times that depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Cases in which rows are late, or in which what is between the first and the last state of a table counts.
IN_STEPS = frozenset(
    {
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
# In one batch, a row that came and went was never there, so that its time does not count: a right row of a join, or a
# count that was 2 between 1 and 3. Kafka Streams on a broker may answer so, too: the two sides of a join are tasks that
# do not wait for each other, and a cache merges what it holds.
WITHOUT_TIMES = frozenset({"chained", "foreign-key-join", "foreign-key-join-many"})


def timeless(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {topic: {key: value for key, (value, _) in rows.items()} for topic, rows in answers.items()}
