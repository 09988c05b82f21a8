"""What brokers ask of each other."""
