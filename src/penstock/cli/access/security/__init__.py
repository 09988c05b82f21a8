"""Requests about ACLs, users, quotas, policies and the audit trail."""
