"""The origin of a batch. Validation and producer state check a client's batch most, a coordinator's less."""

from __future__ import annotations

import enum


class Origin(enum.Enum):
    CLIENT = "client"  # everything is checked
    COORDINATOR = "coordinator"  # the broker's own records: no sequences, may write control batches
    REPLICATION = "replication"  # the leader has checked already; offsets stay unchanged
