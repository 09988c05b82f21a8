"""What the controller decides about ACLs, users, quotas and policies. Pure."""
