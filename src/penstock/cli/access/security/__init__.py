"""Asking a cluster about rights, users, quotas, policies and what was audited."""
