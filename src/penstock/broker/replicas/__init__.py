"""Partitions with several replicas at work: followers that fetch, in-sync sets that are maintained, leases."""
