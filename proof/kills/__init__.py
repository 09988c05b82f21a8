"""Brokers of a cluster are killed in turn while applications begin: what these see of it, beside the same on Kafka."""
