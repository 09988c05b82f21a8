"""One connection to a broker, and how clients are set up."""
