"""Who may connect, what they may do and how much: logins, users, delegation tokens, ACLs, quotas."""
