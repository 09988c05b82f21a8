"""Configuration: one table of keys, and the effective values, typed and checked."""
