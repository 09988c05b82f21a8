"""Whether a trail is whole: no number missing, none twice, no event changed.

The trails of several brokers may be read together; each has its own numbers. A finding describes the fault in words
from which an operator learns what to think of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.security.audit.cloud_events import NO_CHAIN, Kept, decode
from penstock.security.audit.events import AuditKind

STARTED = "AuditStarted"
STOPPED = "AuditStopped"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    source: str
    problem: str  # gap, repeated, changed, unclean, unreadable
    first: int
    last: int
    time: str
    text: str


@dataclass(slots=True)
class _State:
    number: int
    chain: str
    what: str


class Check:
    """Take every event in order; each `take` returns the event's faults."""

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}
        self.count = 0

    @property
    def sources(self) -> list[str]:
        return list(self._states)

    def take_line(self, line: bytes) -> list[AuditFinding]:
        """A line of a file, whose lines form one chain."""
        try:
            plain = decode(line)
        except ValueError as error:
            return [AuditFinding("", "unreadable", 0, 0, "", f"a line is no event: {error}")]
        state = self._states.get(plain.source)
        previous = state.chain if state is not None else None
        return self.take(decode(line, NO_CHAIN if previous is None else previous))

    def take(self, kept: Kept) -> list[AuditFinding]:
        self.count += 1
        state = self._states.get(kept.source)
        self._states[kept.source] = _State(kept.number, kept.chain, kept.event.what)
        is_start = kept.event.kind is AuditKind.TRAIL and kept.event.what == STARTED
        if state is None:
            return []  # the first event of a source: the events before it are unknown
        findings = []
        if kept.number <= state.number:
            findings.append(_find(kept, "repeated", kept.number, kept.number, "a number comes twice"))
        elif is_start and not kept.event.details.get("clean") and kept.number > state.number + 1:
            text = "the broker ended without a word: events up to here may never have been written"
            findings.append(_find(kept, "unclean", state.number + 1, kept.number - 1, text))
        elif kept.number > state.number + 1:
            missing = kept.number - state.number - 1
            text = f"{missing} event{'s are' if missing > 1 else ' is'} missing"
            findings.append(_find(kept, "gap", state.number + 1, kept.number - 1, text))
        if not kept.is_intact and not is_start:
            text = "the event was changed, or the one before it was taken out"
            findings.append(_find(kept, "changed", kept.number, kept.number, text))
        return findings


def _find(kept: Kept, problem: str, first: int, last: int, text: str) -> AuditFinding:
    return AuditFinding(kept.source, problem, first, last, kept.time, text)
