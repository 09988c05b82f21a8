"""The metadata of the cluster: an image, decisions about it, the store that keeps it."""
