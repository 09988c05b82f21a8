"""The records of `__consumer_offsets`, byte for byte equal to Kafka's."""
