"""Runs a planned application: its queries as a pipeline, its topics, and the upkeep of both."""
