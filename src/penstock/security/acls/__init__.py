"""Access control lists: their types, their decisions, and the search among them."""
