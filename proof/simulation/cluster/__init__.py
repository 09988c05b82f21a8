"""Several brokers in one world: one store, a network between them, and what can go wrong with either."""
