"""The registry over HTTP: one table of operations, from which its routes, its OpenAPI document and its page follow."""
