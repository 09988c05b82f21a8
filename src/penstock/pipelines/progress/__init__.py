"""How far a running pipeline is, for people and for Prometheus."""
