"""Encodes columns to Avro payloads."""
