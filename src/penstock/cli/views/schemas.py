"""What two schemas mean for each other, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Direction:
    """What one of two schemas cannot read of the other's data."""

    differences: tuple[str, ...]

    @property
    def is_readable(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True)
class Comparison:
    old: str
    new: str
    # A unified diff; empty where the texts are the same.
    changes: list[str]
    backward: Direction
    forward: Direction
    # Of the subject; None where there is none.
    level: str | None

    def fits(self, level: str) -> bool:
        """Only these two are looked at: a TRANSITIVE level also compares with the versions before."""
        wanted = level.removesuffix("_TRANSITIVE")
        backward = self.backward.is_readable or wanted not in ("BACKWARD", "FULL")
        return backward and (self.forward.is_readable or wanted not in ("FORWARD", "FULL"))

    def to_json(self) -> dict[str, Any]:
        return {
            "old": self.old,
            "new": self.new,
            "changes": self.changes,
            "backward": {"compatible": self.backward.is_readable, "differences": list(self.backward.differences)},
            "forward": {"compatible": self.forward.is_readable, "differences": list(self.forward.differences)},
            "level": self.level,
            "fits_level": None if self.level is None else self.fits(self.level),
        }

    def lines(self) -> list[str]:
        lines = [*self.changes, ""] if self.changes else ["The schemas are the same text.", ""]
        lines += _direction("The new schema reads data of the old one (BACKWARD)", self.backward)
        lines += _direction("The old schema reads data of the new one (FORWARD)", self.forward)
        if self.level is not None:
            verdict = "may follow" if self.fits(self.level) else "may not follow"
            lines.append(f"The level is {self.level}: the new schema {verdict}.")
            if self.level.endswith("_TRANSITIVE"):
                lines.append("All older versions count as well: `penstock schemas check` asks about them.")
        return lines


def _direction(title: str, direction: Direction) -> list[str]:
    if direction.is_readable:
        return [f"{title}: yes"]
    return [f"{title}: no", *(f"  {each}" for each in direction.differences)]
