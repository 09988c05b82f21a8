"""Pipelines that come with Penstock."""
