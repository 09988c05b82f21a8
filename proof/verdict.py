"""What the anomalies of a history mean for a report: lost, duplicated, reordered, or something else."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.testing.history import Anomaly

LOST, DUPLICATED, REORDERED, OTHER = "lost", "duplicated", "reordered", "other"
CLASSES = (LOST, DUPLICATED, REORDERED, OTHER)
# Kinds of `history_check`. What is not named here is "other": a record that nobody sent, one of an aborted transaction,
# an offset that changed its record or is missing.
_CLASS_OF = {
    "lost-write": LOST,
    "unseen": LOST,
    "lost-commit": LOST,
    "lost-key": LOST,
    "stale-key": LOST,
    "duplicate": DUPLICATED,
    "reordered": REORDERED,
    "nonmonotonic-send": REORDERED,
    "int-nonmonotonic-send": REORDERED,
}


def sort_anomalies(anomalies: Iterable[Anomaly]) -> dict[str, list[str]]:
    """The texts of the anomalies by class; every class is a key."""
    texts: dict[str, list[str]] = {name: [] for name in CLASSES}
    for anomaly in anomalies:
        texts[_CLASS_OF.get(anomaly.kind, OTHER)].append(str(anomaly))
    return texts
