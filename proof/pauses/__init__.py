"""Coordination and one broker of a cluster stand still: what an idempotent producer wrote must be there once."""
