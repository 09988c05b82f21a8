"""Connections and requests from this broker to the other brokers of the cluster."""
