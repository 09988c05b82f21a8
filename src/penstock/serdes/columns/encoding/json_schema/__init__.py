"""Encodes columns to JSON payloads."""
