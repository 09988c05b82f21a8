"""Decisions of the commands, without a client. Pure."""
