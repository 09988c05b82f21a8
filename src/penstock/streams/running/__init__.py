"""Runs a planned application: its queries as a pipeline, its topics, and what keeps both in order."""
