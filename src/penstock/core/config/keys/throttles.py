"""The names of the settings by which moves are slowed down (KIP-73, KIP-113): brokers read them, operators set them."""

from __future__ import annotations

# Of topics: the replicas that are throttled, as `partition:broker` pairs or `*`.
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
THROTTLED_REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
ALL_REPLICAS = "*"

# Of brokers: bytes per second.
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
REPLICATION_RATES = (LEADER_RATE, FOLLOWER_RATE)
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
