"""Kafka's wire format: frames, messages, record batches, errors. Bytes alone."""
