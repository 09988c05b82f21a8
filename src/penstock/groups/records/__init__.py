"""The records of `__consumer_offsets`, byte for byte Kafka's."""
