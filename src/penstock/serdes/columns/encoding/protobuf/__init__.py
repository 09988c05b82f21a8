"""Columns to Protobuf payloads."""
