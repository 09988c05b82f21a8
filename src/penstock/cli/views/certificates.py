"""How certificates are shown."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.output import Table

if TYPE_CHECKING:
    from penstock.security.certificates.directory import Entry

# Enough time to ask somebody, and enough to act.
WARN_DAYS, ALARM_DAYS = 30, 7


def certificate_document(entry: Entry, file: Path) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind,
        "file": str(file),
        "hosts": list(entry.hosts),
        "organization": entry.organization,
        "serial": entry.serial,
        "valid_until": entry.valid_until,
        "revoked_at": entry.revoked_at,
    }


def certificate_table(entries: Sequence[Entry], now: datetime.datetime) -> Table:
    table = Table(("NAME", "KIND", "HOSTS", "VALID UNTIL", "STATE"))
    for entry in entries:
        until = entry.expires().strftime("%Y-%m-%d %H:%M")
        table.add(entry.name, entry.kind, ",".join(entry.hosts) or None, until, certificate_state(entry, now))
    return table


def certificate_state(entry: Entry, now: datetime.datetime) -> str:
    days = (entry.expires() - now).total_seconds() / 86_400
    if entry.revoked_at is not None:
        return "revoked"
    if days <= 0:
        return "EXPIRED"
    if days <= WARN_DAYS:
        return f"{'ENDS' if days <= ALARM_DAYS else 'ends'} in {int(days)} days"
    return "valid"
