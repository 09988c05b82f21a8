"""The sinks of pipelines."""
