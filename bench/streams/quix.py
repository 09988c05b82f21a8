"""The queries that quix-streams has, exactly once, until it is terminated: `quix.py SPEC`, the SPEC as JSON.

Runs in an environment of its own, which has nothing of ours.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any


def main(spec: dict[str, Any]) -> None:
    from quixstreams import Application  # type: ignore[import-not-found]

    app = Application(
        broker_address=spec["bootstrap"],
        consumer_group=f"quix-nexmark-{spec['query']}",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.1,
        state_dir=f"{spec['directory']}/state",
    )
    bids = app.topic("nexmark-bid", value_deserializer="json", key_deserializer="str")
    out = app.topic("quix-nexmark-out", value_serializer="json", key_serializer="str")
    rows = build(spec["query"], app.dataframe(bids))
    rows.to_topic(out)
    app.run()


def build(query: str, rows: Any) -> Any:
    if query == "q1":
        return rows.apply(lambda bid: {**bid, "price": bid["price"] * 0.908})
    if query == "q2":
        chosen = rows.filter(lambda bid: bid["auction"] % 123 == 0)
        return chosen.apply(lambda bid: {"auction": bid["auction"], "price": bid["price"]})
    if query == "q7":
        one = rows.group_by(lambda bid: "1", name="all", key_serializer="str", key_deserializer="str")
        window = one.tumbling_window(timedelta(seconds=10))
        return window.reduce(lambda best, bid: max(best, bid, key=_price), initializer=lambda bid: bid).final()
    if query == "count":
        grouped = rows.group_by("bidder", key_serializer="str", key_deserializer="str")
        return grouped.apply(_count, stateful=True)
    return rows


def _price(bid: dict[str, Any]) -> int:
    return int(bid["price"])


def _count(bid: dict[str, Any], state: Any) -> dict[str, Any]:
    before = state.get("all", {"count": 0, "at": 0})
    after = {"count": before["count"] + 1, "at": max(before["at"], bid["at"])}
    state.set("all", after)
    return after


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
