"""Snapshots of a cluster's metadata: takes them, shows them to people, restores them into an empty ensemble."""
