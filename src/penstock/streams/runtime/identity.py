"""`<checkpoint>/topology.json`: what each query was, so that a changed one is refused and not mixed with an old state.

The partition counts of tables' topics are kept beside it: the latest record of a key is the one with the largest offset
in its partition, and a key moves to another partition when there are more of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.streams.planner.identity import difference, document_of
from penstock.streams.planner.plan import Plan
from penstock.streams.runtime.checkpoints import Files
from penstock.streams.topology.errors import StreamsError

FILE_NAME = "topology.json"
_VERSION = 1
_QUERIES, _GONE, _PARTITIONS = "queries", "gone", "partitions"


def has_identity(files: Files) -> bool:
    """Whether a run has noted here what it is."""
    return _read(files) is not None


def refuse_other(files: Files, plan: Plan, table_partitions: Mapping[str, int]) -> tuple[Any, Any]:
    """StreamsError with the difference where the checkpoint belongs to another topology; else what is noted, and what
    is to be."""
    text = _read(files)
    before = {} if text is None else _parse(text)
    return before, next_document(before, plan, table_partitions)


def check_identity(files: Files, plan: Plan, table_partitions: Mapping[str, int]) -> None:
    """StreamsError as by `refuse_other`; else notes this topology."""
    before, after = refuse_other(files, plan, table_partitions)
    if after == before:
        return
    try:
        files.write(FILE_NAME, json.dumps(after, indent=1, sort_keys=True))
    except OSError as error:
        raise StreamsError(f"{FILE_NAME} of the checkpoint cannot be written: {error}") from error


def next_document(before: Mapping[str, Any], plan: Plan, table_partitions: Mapping[str, int]) -> dict[str, Any]:
    """The new note, from the old one. Queries that went are kept: one that comes back finds its old state. Pure."""
    queries: dict[str, Any] = json.loads(json.dumps(document_of(plan)))
    were, gone = before.get(_QUERIES, {}), before.get(_GONE, {})
    back = {name: gone[name] for name in queries if name in gone}
    lines = difference({**were, **back}, queries)
    if lines:
        raise StreamsError(
            f"{plan.topology.application} is not what its checkpoint is from: {'; '.join(lines)}",
            "Bring the old topology back; or give the new one another application name and run it beside the old one;"
            " or start over with `penstock streams reset`.",
        )
    counts = before.get(_PARTITIONS, {})
    check_partitions(plan, counts, table_partitions)
    went = {name: were[name] for name in were if name not in queries}
    left = {name: document for name, document in gone.items() if name not in queries}
    return {
        "version": _VERSION,
        _QUERIES: queries,
        _GONE: {**left, **went},
        _PARTITIONS: {**counts, **table_partitions},
    }


def check_partitions(plan: Plan, before: Mapping[str, int], now: Mapping[str, int]) -> None:
    for topic, count in now.items():
        if before.get(topic, count) != count:
            raise StreamsError(
                f"the topic {topic} has {count} partitions, and had {before[topic]} when {plan.topology.application}"
                " began: keys have moved, and which record of a key is the latest cannot be told",
                "Start over with `penstock streams reset`, once the producers have written every key anew.",
            )


def _read(files: Files) -> str | None:
    try:
        return files.read(FILE_NAME)
    except OSError as error:
        raise StreamsError(f"{FILE_NAME} of the checkpoint cannot be read: {error}") from error


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise StreamsError(
            f"{FILE_NAME} of the checkpoint cannot be read", "It was written by another version, or changed by hand."
        )
    return document
