"""The callers of a service: forwards their credentials to the brokers, and keeps a client for each caller."""
