"""Routes requests to their broker: connections by address, the client's metadata, and its refresh."""
