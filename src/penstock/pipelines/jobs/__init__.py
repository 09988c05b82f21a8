"""The product's own pipelines."""
