"""Writes to the store by other programs than brokers: the controller finds and reports them, and repairs our nodes."""
