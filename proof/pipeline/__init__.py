"""Kills and signals under a running pipeline."""
