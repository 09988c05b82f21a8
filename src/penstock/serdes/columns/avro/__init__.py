"""Decodes Avro payloads to columns: all rows take the same step at the same time."""
