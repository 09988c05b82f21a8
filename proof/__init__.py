"""How we try to break the product, each way with a seed and a verdict."""
