"""Text formats of records on the command line, for people and for programs."""
