"""What the controller decides about topics, partitions and settings. Pure."""
