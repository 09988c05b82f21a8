"""Records from the command line to topics, and back."""
