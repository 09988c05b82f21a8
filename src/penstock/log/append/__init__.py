"""How a batch comes into a log: what is refused, what is converted, when a new segment begins, the write."""
