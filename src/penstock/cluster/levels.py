"""The level of the metadata: the format that the controller writes, so that every broker of a cluster can read it.

A cluster in a rolling update runs two versions of Penstock for a while. The level in force is the cluster's, and stands
in the image. Each broker names the levels that it knows at its registration. The level rises when an operator asks for
it, and only where all brokers know the new level (ADR 20). The level is also the format number of each delta.
"""

from __future__ import annotations

from typing import NamedTuple

# The name that clients see (ApiVersions, UpdateFeatures).
FEATURE = "penstock.metadata"
FIRST_LEVEL = 1
# From here on deltas have the security data.
SECURITY_LEVEL = 2
# From here on the log and snapshots of the image are the truth, and Kafka's nodes are a picture of it (ADR 31).
SNAPSHOT_LEVEL = 3


class LevelRange(NamedTuple):
    lowest: int
    highest: int

    def has(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


# The levels that this version knows. A new format raises the second number and adds the former format to
# `encode_delta`.
SUPPORTED = LevelRange(FIRST_LEVEL, SNAPSHOT_LEVEL)
