"""Decisions of the controller about ACLs, users, quotas and policies. Pure."""
