"""Payloads by schema: Avro, JSON Schema and Protobuf, framed as Confluent's serializers frame them."""
