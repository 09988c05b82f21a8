"""State and steps of groups that speak the protocol of KIP-848."""
