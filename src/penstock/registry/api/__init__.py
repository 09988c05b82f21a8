"""The registry over HTTP: one table of operations defines the routes, the OpenAPI document and the docs page."""
