"""The handlers: a module for each family of resources, a function for each operation."""
