"""Replication in a broker: fetches by followers, in-sync sets, leases of leaders."""
