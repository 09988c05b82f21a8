"""Kills under a running pipeline."""
