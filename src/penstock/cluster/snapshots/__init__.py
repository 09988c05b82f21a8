"""Snapshots of a cluster's metadata: taken, read by people, and restored into an empty ensemble."""
