"""Idempotent producers with several requests in flight, by the rules of librdkafka and of Java's client."""
