"""An event as CloudEvents 1.0 JSON, and back.

    {"specversion": "1.0", "id": "1-42", "source": "penstock://CLUSTER/brokers/1", "type": "io.penstock.audit.change",
     "subject": "Topic:orders", "time": "2026-03-01T12:00:00.123Z", "datacontenttype": "application/json",
     "sequence": "00000000000000000042", "chain": "9f86...", "data": {...}}

The names inside `data` are those of Confluent's audit events, because rules for them exist. `sequence` is the number of
the event in the trail of its broker: a missing number is a missing event. `chain` is a hash over the event and the
chain before it: a forger who changes or removes an event must write all later ones anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from penstock.security.audit.events import AuditEvent, AuditKind, Detail
from penstock.security.audit.redaction import show_detail

TYPE_PREFIX: Final = "io.penstock.audit."
CONTENT_TYPE: Final = "application/cloudevents+json; charset=UTF-8"
# The chain before the first event of a trail.
NO_CHAIN: Final = ""

_SEQUENCE_DIGITS = 20
_CHAIN_DIGITS = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Limits for clients' texts: names and ids of up to 32,767 characters, values of any length.
_MOST_CHARACTERS = 1_000
_MOST_DETAILS = 100


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event on its way to the trail."""

    number: int
    time_ms: int
    event: AuditEvent


@dataclass(frozen=True, slots=True)
class Kept:
    """An event as the trail has it."""

    source: str
    number: int
    time: str
    chain: str
    event: AuditEvent
    is_intact: bool  # its chain follows from the event and the chain before; False where the chain before is not known


def source_of(cluster_id: str, node_id: int) -> str:
    return f"penstock://{cluster_id}/brokers/{node_id}"


def bounded(event: AuditEvent) -> AuditEvent:
    """The event with no more of its texts than `encode` writes. An event that waits for its repeats or for the disk is
    kept like this: clients choose names of 32,767 characters and values of megabytes, and 10,000 events may wait.
    """
    size = len(event.principal) + len(event.resource) + len(event.rule) + len(event.client_id or "")
    if size <= _MOST_CHARACTERS and _are_short(event.details):
        return event
    return replace(
        event,
        principal=_shorten(event.principal),
        client_id=None if event.client_id is None else _shorten(event.client_id),
        resource=_shorten(event.resource),
        rule=_shorten(event.rule),
        details=_visible(event.details),
    )


def _are_short(details: Mapping[str, Detail]) -> bool:
    return len(details) <= _MOST_DETAILS and all(
        len(name) <= _MOST_CHARACTERS and (not isinstance(value, str) or len(value) <= _MOST_CHARACTERS)
        for name, value in details.items()
    )


def encode(numbered: Numbered, source: str, previous_chain: str) -> tuple[bytes, str]:
    """The event as one line without its end, and its chain."""
    event = numbered.event
    fields: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{source.rpartition('/')[2]}-{numbered.number}",
        "source": source,
        "type": TYPE_PREFIX + event.kind,
        "subject": _shorten(event.resource) or event.what,
        "time": format_time(numbered.time_ms),
        "datacontenttype": "application/json",
        "sequence": str(numbered.number).zfill(_SEQUENCE_DIGITS),
        "data": _data(event),
    }
    chain = _link(previous_chain, fields)
    fields["chain"] = chain
    return _dump(fields), chain


def _data(event: AuditEvent) -> dict[str, Any]:
    data: dict[str, Any] = {
        "methodName": event.what,
        "resourceName": _shorten(event.resource),
        "authenticationInfo": {"principal": _shorten(event.principal)},
        "authorizationInfo": {
            "granted": event.is_allowed,
            "operation": event.operation,
            "rule": _shorten(event.rule),
        },
        "requestMetadata": {"clientAddress": event.address},
        "request": {"clientId": None if event.client_id is None else _shorten(event.client_id)},
    }
    if event.details:
        data["details"] = _visible(event.details)
    return data


def _visible(details: Mapping[str, Detail]) -> dict[str, Detail]:
    shown: dict[str, Detail] = {}
    for name, value in islice(details.items(), _MOST_DETAILS):
        visible = show_detail(name, value)
        shown[_shorten(name)] = _shorten(visible) if isinstance(visible, str) else visible
    return shown


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"


def _link(previous_chain: str, fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(previous_chain.encode() + _dump(fields)).hexdigest()[:_CHAIN_DIGITS]


def _dump(fields: Mapping[str, Any]) -> bytes:
    """One form for one event: names in the order of the alphabet. Escapes leave no line breaks in it."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def decode(line: bytes, previous_chain: str | None = None) -> Kept:
    """Raises ValueError for a line that is no event of ours."""
    fields = json.loads(line)
    if not isinstance(fields, dict) or fields.get("specversion") != "1.0":
        raise ValueError("not a CloudEvents 1.0 object")
    try:
        data = fields["data"]
        kind = AuditKind(fields["type"].removeprefix(TYPE_PREFIX))
        event = AuditEvent(
            kind,
            data["methodName"],
            data["authorizationInfo"]["granted"],
            data["authenticationInfo"]["principal"],
            data["requestMetadata"]["clientAddress"],
            data["request"]["clientId"],
            data["resourceName"],
            data["authorizationInfo"]["operation"],
            data["authorizationInfo"]["rule"],
            data.get("details", {}),
        )
        chain = fields.pop("chain")
        is_intact = previous_chain is not None and _link(previous_chain, fields) == chain
        return Kept(fields["source"], int(fields["sequence"]), fields["time"], chain, event, is_intact)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an audit event: {error}") from error


def flatten(kept: Kept) -> dict[str, Any]:
    """For `--json` and for people: one level, our names."""
    event = kept.event
    return {
        "time": kept.time,
        "number": kept.number,
        "source": kept.source,
        "kind": str(event.kind),
        "what": event.what,
        "allowed": event.is_allowed,
        "principal": event.principal,
        "address": event.address,
        "client_id": event.client_id,
        "resource": event.resource,
        "operation": event.operation,
        "rule": event.rule,
        "details": dict(event.details),
    }


def format_time(time_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
