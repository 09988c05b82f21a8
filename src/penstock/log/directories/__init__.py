"""The data directories of a broker, and the logs in them."""
