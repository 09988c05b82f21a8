"""Encodes columns to Protobuf payloads."""
