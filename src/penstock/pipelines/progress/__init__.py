"""The progress of a pipeline, for people and for Prometheus."""
