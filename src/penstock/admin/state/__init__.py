"""The state of a cluster at one moment as plain values: brokers, partitions, groups. Each term has one definition."""
