"""One module for each family of resources; one function for each operation."""
