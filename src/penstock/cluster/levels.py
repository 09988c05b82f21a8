"""The level of the metadata: which format the controller writes, so that every broker of a cluster can read it.

A cluster that is updated broker by broker runs two versions of Penstock for a while. The level in force is the
cluster's, and stands in the image. Each broker tells at its registration which levels it knows. The level rises when
somebody asks for it, and only where all brokers know the new one (ADR 20). The level is the number that each delta has
as its format.
"""

from __future__ import annotations

from typing import NamedTuple

# As clients see it (ApiVersions, UpdateFeatures).
FEATURE = "penstock.metadata"
FIRST_LEVEL = 1
# From here on deltas hold what concerns security.
SECURITY_LEVEL = 2
# From here on the log and snapshots of the image are the truth, and Kafka's nodes are a picture of it (ADR 31).
SNAPSHOT_LEVEL = 3


class LevelRange(NamedTuple):
    lowest: int
    highest: int

    def has(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


# What this version knows. A new format raises the second number and adds to `encode_delta` how the former is written.
SUPPORTED = LevelRange(FIRST_LEVEL, SNAPSHOT_LEVEL)
