"""Runs a pipeline as Spark queries and turns their outcome into an exit code."""
