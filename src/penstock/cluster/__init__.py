"""The metadata of the cluster: the metadata image, decisions about it, and the store that keeps it."""
