"""Requests of a member of a classic group to its coordinator."""
