"""Confluent's Avro serializers for Java, for the interop tests."""
