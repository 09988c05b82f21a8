"""Where penstock.streams answers otherwise than Kafka Streams: by case and output, what ours has for a key, or None.

docs/guides/coming-from-kafka-streams.md says the same in words; a difference that is not here fails a test, and so does
one that is no more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.interop.streams.case_files import Case, kafka_answers

Rows = Mapping[str, Any]


def window(key: str, start: int, end: int) -> str:
    return json.dumps({"end": end, "key": key, "start": start})


def _right(time: int) -> list[str]:
    return [json.dumps({"v_right": f"R{time}"})]


TOO_LATE = (84999, 80000, 78000)

# A record without a value counts in windows of Kafka Streams, and only there.
NULL_VALUES: Mapping[str, Rows] = {
    "tumbling": {window("a", 0, 10_000): ({"count": 1}, 1000)},
    "session": {window("a", 1000, 1000): ({"count": 1}, 1000), window("a", 1000, 2000): None},
}
# Kafka Streams' repartition() drops records without a key.
NULL_KEYS: Mapping[str, Rows] = {"through": {"null at 4000": ['{"n": 4}'], "null at 6000": ["null"]}}
# Spark has one time for all partitions.
IDLE_PARTITION: Mapping[str, Rows] = {
    "updates": {window("b", 0, 10_000): ({"count": 1}, 1000)},
    "final": {window("b", 0, 10_000): ({"count": 1}, 1000)},
}
# Spark asks whether a row is late before it looks for the session that the row would join.
LATE_INSIDE: Mapping[str, Rows] = {
    "final": {
        window("a", 1000, 46_000): ({"count": 6}, 46_000),
        window("c", 6000, 42_000): None,  # where the row came before the session, within its gap
        window("c", 15_000, 42_000): ({"count": 4}, 42_000),
    }
}
# In the millisecond in which a session ends, Kafka Streams tells its final result and still takes records for it, which
# it then tells as a second final result, without the first ones.
TO_THE_MILLISECOND: Mapping[str, Rows] = {"final": {window("a", 1000, 1000): ({"count": 2}, 1000)}}
# Spark drops rows whose window is closed; Kafka Streams joins them with what it has not forgotten.
JOINED_TOO_LATE: Mapping[str, Rows] = {
    "inner": {f'"k{time}" at 88000': None for time in TOO_LATE},
    "left-join": {
        **{f'"k{time}" at 88000': None for time in TOO_LATE},
        **{f'"alone{time}" at {time}': None for time in TOO_LATE},
    },
    "outer": {
        **{f'"k{time}" at 88000': _right(time) for time in TOO_LATE},
        **{f'"alone{time}" at {time}': None for time in TOO_LATE},
    },
}
# A table joined with a view of itself: Kafka Streams does not tell that both rows are gone.
DELETED_ON_BOTH_SIDES: Mapping[str, Rows] = {"joined": {'"c"': None}}
# SQL's sum of nothing is null.
SUM_OF_NOTHING: Mapping[str, Rows] = {"summed": {'"x"': ({}, 8500), '"z"': ({}, 7500)}}

DIFFERENCES: Mapping[str, Mapping[str, Rows]] = {
    "windowed-null-values": NULL_VALUES,
    "repartition": NULL_KEYS,
    "idle-partition": IDLE_PARTITION,
    "session-late-inside": LATE_INSIDE,
    "session-grace-exact": TO_THE_MILLISECOND,
    "stream-stream-join-too-late": JOINED_TOO_LATE,
    "table-filter": DELETED_ON_BOTH_SIDES,
    "table-group-by": SUM_OF_NOTHING,
}


def expected(case: Case) -> dict[str, dict[str, Any]]:
    """Kafka Streams' answers, with the differences."""
    answers = kafka_answers(case)
    for topic, rows in DIFFERENCES.get(case.name, {}).items():
        for key, ours in rows.items():
            assert answers[topic].get(key) != ours, f"{case.name}, {topic}: {key} does not differ"
            if ours is None:
                del answers[topic][key]
            else:
                answers[topic][key] = ours
    return answers
