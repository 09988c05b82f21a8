"""A function for each operation of the table: translate the request, ask the service, translate the answer."""
