"""Runs that can be seen and told what to do, by way of two topics. Pipelines use it; streams and connectors will."""
