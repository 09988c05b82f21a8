"""Handlers of requests between brokers: follower fetches, envelopes, AlterPartition, heartbeats."""
