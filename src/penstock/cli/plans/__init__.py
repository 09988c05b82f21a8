"""Decisions of commands, without a client."""
