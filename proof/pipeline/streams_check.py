"""What the application of `streams_driver` is fed, and what its tables must hold in the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from penstock.testing.fleet.patience import PATIENT
from penstock.testing.fleet.read_back import read_everything
from proof.pipeline.streams_driver import BY_CUSTOMER, CLICKS, COUNTED, CUSTOMERS, JOINED, NOTES, ORDERS

_TIMEOUT_S = 60.0
_SHOWN = 3
_FIRST_MS = 1_780_000_000_000
_WINDOW_MS = 60_000
_ORDERS, _CUSTOMERS, _USERS = 40, 7, 6
# By what is left of a number: every table gets a fifth of the records, clicks get two.
_TABLES = (ORDERS, CUSTOMERS, NOTES)
_KINDS = 5
# One customer in so many is deleted, and comes again with a later record.
_DELETED_EVERY = 4


def record_of(number: int) -> dict[str, Any]:
    """As a producer takes it. Events of a second apart: nothing comes too late within a month of records."""
    turn, kind = divmod(number, _KINDS)
    topic = _TABLES[kind] if kind < len(_TABLES) else CLICKS
    value: dict[str, Any] | None
    match topic:
        case str() if topic == ORDERS:
            key, value = f"o{turn % _ORDERS}", {"customer": f"c{turn * 3 % _CUSTOMERS}", "amount": number}
        case str() if topic == CUSTOMERS:
            key, value = f"c{turn % _CUSTOMERS}", {"name": f"n{number}"} if turn % _DELETED_EVERY else None
        case str() if topic == NOTES:
            key, value = f"o{turn * 7 % _ORDERS}", {"note": number}
        case _:
            key, value = "", {"user": f"u{number % _USERS}", "number": number}
    at_ms = _FIRST_MS + number * 1000
    return {"topic": topic, "key": key, "value": None if value is None else json.dumps(value), "timestamp": at_ms}


def expected_tables(count: int) -> dict[str, dict[str, Any]]:
    """By topic and key, the last value of each key that is not deleted; only what the check compares."""
    latest: dict[str, dict[str, Any]] = {topic: {} for topic in _TABLES}
    clicks: Counter[str] = Counter()
    for number in range(count):
        record = record_of(number)
        value: Any = None if record["value"] is None else json.loads(record["value"])
        if record["topic"] == CLICKS:
            clicks[f"{value['user']} {record['timestamp'] // _WINDOW_MS * _WINDOW_MS}"] += 1
        elif value is None:
            latest[record["topic"]].pop(record["key"], None)
        else:
            latest[record["topic"]][record["key"]] = value
    orders, notes, customers = (latest[topic] for topic in (ORDERS, NOTES, CUSTOMERS))
    return {
        JOINED: {key: [row["amount"], notes.get(key, {}).get("note")] for key, row in orders.items()},
        BY_CUSTOMER: {
            key: [row["amount"], customers.get(row["customer"], {}).get("name")] for key, row in orders.items()
        },
        COUNTED: dict(clicks),
    }


def check_tables(servers: str, count: int) -> list[str]:
    expected = expected_tables(count)
    read = {
        JOINED: _read(servers, JOINED, lambda key, row: (key, [row["amount"], row.get("note")])),
        BY_CUSTOMER: _read(servers, BY_CUSTOMER, lambda key, row: (key, [row["amount"], row.get("name")])),
        COUNTED: _read(servers, COUNTED, _counted),
    }
    return [f"{topic}: {difference}" for topic in expected if (difference := differences(expected[topic], read[topic]))]


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Empty where there are none."""
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    shown = "; ".join(f"{key} is {found.get(key)}, should be {expected.get(key)}" for key in keys[:_SHOWN])
    return f"{len(keys)} of {len(expected)} keys differ: {shown}" if keys else ""


def _counted(key: str, row: Mapping[str, Any]) -> tuple[str, Any]:
    start = json.loads(key)["start"]
    return f"{row['user']} {start}", row["count"]


def _read(servers: str, topic: str, compared: Any) -> dict[str, Any]:
    """The last committed value of each key that is not deleted."""
    admin = AdminClient({"bootstrap.servers": servers, **PATIENT})
    partitions = admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
    last: dict[str, Any] = {}
    for message in read_everything(servers, [(topic, partition) for partition in partitions]):
        key, value = (message.key() or b"").decode(), message.value()
        last[key] = None if value is None else json.loads(value)
    return dict(compared(key, row) for key, row in last.items() if row is not None)
