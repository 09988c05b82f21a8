"""Columns to payloads of JSON."""
