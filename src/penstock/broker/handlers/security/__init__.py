"""Who may connect: logins, users, delegation tokens."""
