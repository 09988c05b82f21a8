"""The clients of rounds that serve a real broker: senders, with and without transactions, pollers, committers."""
