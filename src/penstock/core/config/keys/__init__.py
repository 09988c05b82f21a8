"""The rows of the table of configuration keys, by theme."""
