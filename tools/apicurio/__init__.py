"""A second registry server, by others: Apicurio, for differential tests and the benchmark."""
