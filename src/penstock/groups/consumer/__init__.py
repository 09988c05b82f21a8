"""State and steps of groups that speak the consumer protocol (KIP-848)."""
