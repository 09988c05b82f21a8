"""Questions to a cluster about who may do what, and how much."""
