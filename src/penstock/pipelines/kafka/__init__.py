"""Connections of pipelines to brokers."""
