"""Names of hosts, and questions over blocking sockets that end in time."""
