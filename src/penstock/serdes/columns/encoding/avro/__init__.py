"""Columns to Avro payloads."""
