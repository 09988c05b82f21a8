"""Histories of clients' requests and of their answers."""

from penstock.testing.history.operations import (
    Action,
    Anomaly,
    Assign,
    Commit,
    Final,
    GroupPartition,
    HistoryReport,
    Isolation,
    Operation,
    Outcome,
    Poll,
    Send,
    Where,
    read_history,
    write_history,
)

__all__ = [
    "Action",
    "Anomaly",
    "Assign",
    "Commit",
    "Final",
    "GroupPartition",
    "HistoryReport",
    "Isolation",
    "Operation",
    "Outcome",
    "Poll",
    "Send",
    "Where",
    "read_history",
    "write_history",
]
