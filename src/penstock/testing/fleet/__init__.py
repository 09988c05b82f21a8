"""Clients that produce a history."""
