"""Repeats of an event become one with a count, per minute.

Reads and writes are recorded when the minute is over. The first login or denial of a kind is recorded at once, because
an operator may watch for it, and its repeats when the minute is over: a client that tries a thousand times a second
leaves two events. Changes are never merged: each one deserves a line.

Refused logins are merged by the claimed name, too. An attacker who guesses names invents thousands: a minute records a
few of each address, and the others as one event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from penstock.security.audit.events import CLAIMED, AuditEvent, AuditKind, Detail

WINDOW_MS = 60_000
# Clients choose names, so the number of different events is bounded: at this many the minute ends early.
MOST_DIFFERENT = 10_000
# Claimed names of an address in a minute. The later ones share one event.
MOST_CLAIMED = 20
OTHERS = "(others)"

_TOLD_LATER = frozenset({AuditKind.READ, AuditKind.WRITE})
_MERGED = _TOLD_LATER | {AuditKind.LOGIN, AuditKind.DENIAL}
# Details that are summed over the repeats. The other details are those of the first event.
_SUMS = ("bytes", "records")

_Identity = tuple[AuditKind, str, bool, str, str, str | None, str, str, str, Detail]


class Repeats:
    """One event, and how often it came since it was recorded."""

    __slots__ = ("count", "event", "first_ms", "last_ms", "sums")

    def __init__(self, event: AuditEvent, now_ms: int) -> None:
        self.event = event
        self.count = 0
        self.first_ms = now_ms
        self.last_ms = now_ms
        self.sums: dict[str, int] = {}

    def add(self, event: AuditEvent, now_ms: int) -> None:
        if not self.count:
            self.first_ms = now_ms
        self.count += 1
        self.last_ms = now_ms
        for name in _SUMS:
            amount = event.details.get(name)
            if amount is not None:
                self.sums[name] = self.sums.get(name, 0) + int(amount)

    def told(self) -> AuditEvent:
        details: dict[str, Detail] = {**self.event.details, **self.sums}
        details |= {"count": self.count, "first_ms": self.first_ms, "last_ms": self.last_ms}
        return replace(self.event, details=details)


class Merging:
    def __init__(self, most_different: int = MOST_DIFFERENT) -> None:
        self._most = most_different
        self._repeats: dict[_Identity, Repeats] = {}
        self._claims: Counter[str] = Counter()  # different names, by address

    def __len__(self) -> int:
        return len(self._repeats)

    @property
    def is_full(self) -> bool:
        """True when the minute must end: call `take_all` before the next `add`."""
        return len(self._repeats) >= self._most

    def add(self, event: AuditEvent, now_ms: int) -> AuditEvent | None:
        """The event to record now, or None."""
        if event.kind not in _MERGED:
            return event
        identity = _identity(event)
        repeats = self._repeats.get(identity)
        if repeats is None and CLAIMED in event.details:
            if self._claims[event.address] < MOST_CLAIMED:
                self._claims[event.address] += 1
            else:
                event = replace(event, details={**event.details, CLAIMED: OTHERS})
                identity = _identity(event)
                repeats = self._repeats.get(identity)
        if repeats is None:
            repeats = self._repeats[identity] = Repeats(event, now_ms)
            if event.kind not in _TOLD_LATER:
                return event
        repeats.add(event, now_ms)
        return None

    def take_all(self) -> Iterator[AuditEvent]:
        """The merged events of the minute. The next minute begins."""
        ended, self._repeats = self._repeats, {}
        self._claims.clear()
        return (repeats.told() for repeats in ended.values() if repeats.count)


def _identity(event: AuditEvent) -> _Identity:
    return (
        event.kind,
        event.what,
        event.is_allowed,
        event.principal,
        event.address,
        event.client_id,
        event.resource,
        event.operation,
        event.rule,
        event.details.get(CLAIMED),
    )
