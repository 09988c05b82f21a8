"""What a secure broker needs for its first start: an authority, certificates, users, and a file for its clients."""
