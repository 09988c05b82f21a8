"""A connection to a broker, and the settings of clients."""
