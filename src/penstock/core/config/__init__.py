"""Configuration: one table of keys, and the values in effect, typed and checked."""
