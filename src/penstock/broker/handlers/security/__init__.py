"""Handlers for security: logins, SCRAM users, delegation tokens, ACLs, client quotas."""
