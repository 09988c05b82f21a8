"""Kafka Streams and its test driver, in Java: what penstock.streams is compared with."""
