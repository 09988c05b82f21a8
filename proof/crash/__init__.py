"""kill -9 under load, with and without transactions."""
