"""Topics as a Spark source: offsets, splits, fetching, decoding."""
