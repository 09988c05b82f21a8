"""Clients that operate a cluster: moves, throttles, brokers drained and taken away."""
