"""Access control lists: their words, how they decide, and how they are searched."""
