"""The first start of a secure broker: makes its authority, certificates, users, and a file for its clients."""
