"""Converts payloads to columns, and columns to payloads."""
