"""Handlers for the whole cluster: leader elections, reassignments, features, the quorum, registrations."""
