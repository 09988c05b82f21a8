"""Runs of pipelines, visible and controllable through two topics. Pipelines use it; streams and connectors will."""
