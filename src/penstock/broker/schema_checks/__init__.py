"""Checks records against a schema registry before the append, for topics whose configuration asks for the check."""
