"""A node of the registry: reads and writes the registry's topic, elects a leader, forwards writes to the leader."""
