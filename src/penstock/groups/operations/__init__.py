"""The operations of clients on groups, one module per theme."""
